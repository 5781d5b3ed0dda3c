//! What is at the URL and serves no guard is called by its name, and nothing is refused.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Refusal};
use support::eventually;
use support::model::{Table, guard_over, live, told};
use support::redis_server::{RedisServer, free_port};
use support::sentinel::Sentinel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SOON: Duration = Duration::from_secs(10);

/// The state says so, and so does an insert.
pub(super) async fn named(guard: &BloomGuard, doubt: Doubt, words: &str) {
    told(guard, doubt, words).await;
    let error = guard.insert(&7).await.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(error.advice(), doubt.advice(), "{error}");
    assert!(guard.state().trouble.is_some_and(|trouble| trouble.contains(doubt.advice())));
}

#[tokio::test]
async fn a_node_of_a_cluster_is_named_also_where_it_owns_the_slot() {
    let redis = RedisServer::with(&["--cluster-enabled", "yes"]);
    redis.serves_part(0, 1);
    eventually("it serves keys", SOON, || async {
        redis.try_run::<()>(&["SET", "mine", "1"]).map_err(|error| error.to_string())
    })
    .await;
    let guard = guard_over(&redis.url(), &Table::with(0..100)).build().unwrap();
    named(&guard, Doubt::Refused(Refusal::CLUSTER), "a node of a cluster").await;
    assert_eq!(redis.keys(), ["mine"], "nothing was written");
}

#[tokio::test]
async fn a_sentinel_is_named() {
    let redis = RedisServer::start();
    let sentinel = Sentinel::start("ids", redis.port(), SOON, &[]);
    let url = format!("redis://127.0.0.1:{}/", sentinel.port());
    let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
    named(&guard, Doubt::Refused(Refusal::REPLICA), "redis is a sentinel").await;
}

#[tokio::test]
async fn a_redis_that_is_no_sentinel_is_not_called_too_old() {
    let redis = RedisServer::start();
    let url = format!("redis+sentinel://127.0.0.1:{}/ids", redis.port());
    let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
    named(&guard, Doubt::Disconnected, "it is no sentinel").await;
}

#[tokio::test]
async fn a_socket_and_a_name_that_are_not_there_are_named() {
    for (url, words) in [
        ("redis+unix:///nowhere/redis.sock", "/nowhere/redis.sock: "),
        ("redis://nowhere.invalid", "nowhere.invalid: "),
    ] {
        let guard = guard_over(url, &Table::with(0..100)).build().unwrap();
        named(&guard, Doubt::Disconnected, words).await;
    }
}

/// A user who may do all but one thing.
const USER: [&str; 7] = ["ACL", "SETUSER", "guard", "on", ">p", "~*", "+@all"];

fn of_user(redis: &RedisServer) -> BloomGuard {
    let url = format!("redis://guard:p@127.0.0.1:{}/", redis.port());
    guard_over(&url, &Table::with(0..100)).build().unwrap()
}

#[tokio::test]
async fn a_right_that_a_user_lacks_is_named() {
    for right in ["info", "time", "eval", "evalsha"] {
        let redis = RedisServer::start();
        redis.run::<()>(&[&USER[..], &[&format!("-{right}")]].concat());
        named(&of_user(&redis), Doubt::Refused(Refusal::DENIED), right).await;
    }
}

#[tokio::test]
async fn a_right_that_a_user_loses_is_named() {
    for right in ["info", "time", "evalsha"] {
        let redis = RedisServer::start();
        redis.run::<()>(&USER);
        let guard = of_user(&redis);
        live(&guard).await;
        redis.run::<()>(&["ACL", "SETUSER", "guard", &format!("-{right}")]);
        eventually("state and insert say so", SOON, || async {
            let error = guard.insert(&7).await.err().map(|error| error.to_string());
            let trouble = guard.state().trouble;
            let names = |words: &String| words.contains("NOPERM") && words.contains(right);
            let both = [&error, &trouble].map(|words| words.as_ref().is_some_and(names));
            let advice = Refusal::DENIED.advice();
            let is_advised = trouble.as_ref().is_some_and(|words| words.contains(advice));
            if both == [true; 2] && is_advised {
                Ok(())
            } else {
                Err(format!("{error:?} {trouble:?}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn an_address_that_a_cluster_or_sentinels_name_in_vain_is_told_from_that_of_the_url() {
    let redis = RedisServer::with(&[
        "--cluster-enabled",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.2",
        "--cluster-require-full-coverage",
        "no",
    ]);
    redis.serves_part(0, 1);
    let sentinel = Sentinel::start("ids", free_port(), Duration::from_secs(3_600), &[]);
    for (url, by) in [
        (format!("redis+cluster://127.0.0.1:{}", redis.port()), "the cluster of 127.0.0.1"),
        (format!("redis+sentinel://127.0.0.1:{}/ids", sentinel.port()), "the sentinels"),
    ] {
        let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
        named(&guard, Doubt::Refused(Refusal::UNREACHABLE), "Connection refused").await;
        told(&guard, Doubt::Refused(Refusal::UNREACHABLE), by).await;
    }
}

#[tokio::test]
async fn one_cause_is_told_once() {
    let url = format!("redis://127.0.0.1:{}/", free_port());
    let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
    named(&guard, Doubt::Disconnected, "Connection refused").await;
    eventually("a look whether a rebuild is due fails too", SOON, || async {
        let state = guard.state();
        let words = state.trouble.clone().unwrap_or_default();
        assert_eq!(words.matches("Connection refused").count(), 1, "{words}");
        let both = state.inserts.failing.is_some() && state.rebuilds.failing.is_some();
        if both { Ok(()) } else { Err(format!("{state}")) }
    })
    .await;
}

#[tokio::test]
async fn a_password_that_is_set_at_run_time_is_asked_for() {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..100)).build().unwrap();
    live(&guard).await;
    redis.run::<()>(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let client = redis::Client::open(format!("redis://:s3cret@127.0.0.1:{}/", redis.port()));
    let mut connection = client.unwrap().get_connection().unwrap();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("NORMAL").exec(&mut connection).unwrap();
    named(&guard, Doubt::Refused(Refusal::DENIED), "NOAUTH").await;
}

#[tokio::test]
async fn a_password_that_redis_has_not_is_named() {
    let redis = RedisServer::start();
    let url = format!("redis://:s3cret@127.0.0.1:{}/", redis.port());
    let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
    named(&guard, Doubt::Refused(Refusal::DENIED), "without any password").await;
}

#[tokio::test]
async fn a_filter_that_is_longer_than_a_string_may_be_is_named_before_the_first_is_built() {
    let redis = RedisServer::with(&["--proto-max-bulk-len", "1mb"]);
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).capacity(1_000_000, 0.001).build().unwrap();
    eventually("its rebuilds say so", SOON, || async {
        let state = guard.state();
        let trouble = state.trouble.clone().unwrap_or_default();
        let all = trouble.contains(Refusal::STRING_LIMIT.advice());
        if all { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
}

/// What a redis-server in protected mode tells a client from elsewhere, word for word, before it hangs up.
const PROTECTED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

#[tokio::test]
async fn protected_mode_is_named() {
    for asked_first in [false, true] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if asked_first {
                    client.read_u8().await.ok();
                }
                client.write_all(PROTECTED.as_bytes()).await.ok();
            }
        });
        let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
        named(&guard, Doubt::Refused(Refusal::DENIED), "protected mode").await;
        serving.abort();
    }
}
