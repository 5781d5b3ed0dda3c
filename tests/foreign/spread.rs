//! A filter that is spread over several servers is asked on all of them at once.

use std::time::Duration;

use bloom_guard::{BoxError, Credentials, ForeignFilter, SettingError, Verdict};
use support::far::Far;
use support::model::foreign_guard;
use support::redis_server::RedisServer;

use crate::guarded::{STRANGERS, trust_by};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_over_many_servers_takes_no_longer_than_the_farthest_of_them() {
    const SERVERS: usize = 5;
    const IDS: std::ops::Range<u64> = 0..1_000;
    let servers: Vec<RedisServer> = (0..SERVERS).map(|_| RedisServer::start()).collect();
    let mut ways = Vec::new();
    for server in &servers {
        ways.push(Far::to(server.port(), Duration::ZERO).await);
    }
    let urls: Vec<String> = ways.iter().map(Far::url).collect();
    let others: Vec<&str> = urls[1..].iter().map(String::as_str).collect();
    let filter = ForeignFilter::php_bkdr_sharded("php", 1_000_000, 4, &others);
    let deadline = Duration::from_secs(1);
    let guard = foreign_guard(&urls[0]).check_deadline(deadline).foreign(filter).build().unwrap();
    guard.insert_many(IDS).await.unwrap();
    trust_by(&guard, IDS).await;
    // One after the other they would take half as long again as there is time.
    ways.iter().for_each(|way| way.take(deadline * 3 / 10));
    let verdicts = guard.check_many(IDS.take(100).chain(STRANGERS)).await.unwrap();
    let unknown = verdicts.iter().filter(|one| matches!(one, Verdict::Unknown(_))).count();
    assert_eq!(unknown, 0, "of {}: {verdicts:?}", verdicts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_the_application_gives_are_for_each_of_the_servers() {
    const IDS: std::ops::Range<u64> = 0..1_000;
    let servers = [(); 2].map(|()| RedisServer::start());
    for server in &servers {
        server.run::<()>(&["ACL", "SETUSER", "guard", "on", ">one", "~*", "+@all"]);
    }
    let [first, second] = servers.each_ref().map(RedisServer::url);
    let sharded = |other: &str| ForeignFilter::php_bkdr_sharded("php", 1_000_000, 4, &[other]);
    let given = || async { Ok::<_, BoxError>(Credentials::new("one").user("guard")) };
    let guarded =
        foreign_guard(&first).foreign(sharded(&second)).credentials(given).build().unwrap();
    guarded.insert_many(IDS).await.unwrap();
    trust_by(&guarded, IDS).await;
    for server in &servers {
        let killed: u64 = server.run(&["CLIENT", "KILL", "USER", "guard"]);
        assert!(killed >= 2, "{killed}");
    }
    let twice = sharded(&second.replace("//", "//:s3cret@"));
    let error = foreign_guard(&first).foreign(twice).credentials(given).build().unwrap_err();
    assert!(matches!(error.problems(), [SettingError::CredentialsTwice]), "{error}");
}
