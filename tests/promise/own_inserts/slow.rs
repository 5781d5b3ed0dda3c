//! One process whose way to Redis is slow does not keep the others without a filter.

use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};
use tokio::time::Instant;

use super::{OPEN, generation};
use support::far::Far;
use support::model::{Table, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

/// How long its transactions may take.
const LONGEST: Duration = Duration::from_secs(4);

/// A process that rebuilds, one whose way to Redis takes a while, and their table; the second has inserted so
/// many ids, the last of which has its transaction open.
async fn with_inserts(
    redis: &RedisServer,
    inserts: u64,
) -> (Far, BloomGuard, BloomGuard, Table, Instant) {
    let far = Far::to(redis.port(), Duration::ZERO).await;
    let table = Table::with(0..1_000);
    let build = |url: &str| guard_over(url, &table).longest_transaction(LONGEST);
    let rebuilder = build(&redis.url()).build().unwrap();
    let slow = guard(&far.url()).longest_transaction(LONGEST).build().unwrap();
    live(&rebuilder).await;
    live(&slow).await;
    slow.insert_many(10_000..10_000 + inserts).await.unwrap();
    slow.insert(&OPEN).await.unwrap();
    (far, slow, rebuilder, table, Instant::now())
}

#[tokio::test]
async fn a_process_whose_replay_takes_long_is_waited_for_until_its_transactions_are_over() {
    let redis = RedisServer::start();
    let (far, _slow, rebuilder, table, inserted) = with_inserts(&redis, 5_000).await;
    let old = generation(&rebuilder);
    // So that it finds the new life of Redis in time, and its replay takes ten seconds.
    far.take(Duration::from_millis(100));
    redis.run::<()>(&["FLUSHALL"]);
    // It commits at the last moment that its transaction may.
    throughout((inserted + LONGEST).saturating_duration_since(Instant::now()), || async {
        let verdict = rebuilder.check(&OPEN).await.unwrap();
        let rebuilt = rebuilder.state().live.is_ok_and(|live| live.generation.get() > old);
        assert!(!(rebuilt && matches!(verdict, Verdict::Absent(_))), "a filter without the insert");
    })
    .await;
    table.commit(OPEN);
    eventually("a filter is trusted", Duration::from_secs(30), || async {
        assert_eq!(get_looked_up(&rebuilder, &table, OPEN).await, 200, "acknowledged, and refused");
        match rebuilder.check(&u64::MAX).await.unwrap() {
            Verdict::Absent(_) => Ok(()),
            other => Err(format!("{other:?} {:?}", rebuilder.state())),
        }
    })
    .await;
    let back = inserted.elapsed();
    assert!(back < LONGEST + Duration::from_secs(5), "a filter is back after {back:?}");
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get_looked_up(&rebuilder, &table, OPEN).await, 200, "acknowledged, and refused");
    })
    .await;
}
