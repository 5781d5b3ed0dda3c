//! The smallest filters, and what is left behind.

use std::time::Duration;

use bloom_guard::Verdict;

use super::passes;
use support::eventually;
use support::model::{Table, brief, guard_over, live};
use support::redis_server::RedisServer;

#[tokio::test]
async fn the_smallest_filters_work() {
    let redis = RedisServer::start();
    for (ids, capacity, rate) in [(1_u64, 1, 0.5), (1, 1, 1e-9), (40, 1, 0.01)] {
        redis.run::<()>(&["FLUSHALL"]);
        let table = Table::with(0..ids);
        let guard = guard_over(&redis.url(), &table)
            .capacity(capacity, rate)
            .longest_transaction(Duration::from_secs(1))
            .build()
            .unwrap();
        eventually("live", Duration::from_secs(10), || async {
            match guard.check(&0).await.unwrap() {
                Verdict::Present => Ok(()),
                other => Err(format!("{other:?} {:?}", guard.rebuild_status())),
            }
        })
        .await;
        guard.insert_many(100..400_u64).await.unwrap();
        for id in (0..ids).chain(100..400) {
            assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{id}");
        }
        guard.rebuild_now().await.unwrap();
    }
}

/// Marks after a bulk insert.
#[tokio::test]
async fn marks_and_journal_shrink_when_inserts_stop() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&guard).await;
    guard.insert_many(10_000..30_000_u64).await.unwrap();
    passes(&redis, Duration::from_millis(2_500)).await;
    guard.rebuild_now().await.unwrap();
    guard.rebuild_now().await.unwrap();
    let marks: i64 = redis.run(&["ZCARD", "bg:{users}:marks"]);
    assert!(marks < 1_000, "{marks}");
}

/// A source without adds: the journal of generations is never trimmed.
#[tokio::test]
async fn the_journal_is_bounded_without_adds() {
    let redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard =
        guard_over(&redis.url(), &table).capacity(10, 0.01).journal_entries(1_000).build().unwrap();
    guard.ready().await;
    for _ in 0..1_500 {
        let _ = guard.rebuild_now().await;
    }
    let entries: i64 = redis.run(&["XLEN", "bg:{users}:log"]);
    assert!(entries <= 1_200, "{entries}");
}
