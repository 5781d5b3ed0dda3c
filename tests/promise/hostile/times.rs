//! Processes that disagree about how long a transaction takes, and clocks that are set back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{BoxError, Schedule};

use super::{META, has_read, passes};
use support::model::{Table, brief, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;

/// A rolling deploy raises `handler_time`: the insert was recorded by a process that needs it for less time.
#[tokio::test]
async fn a_record_that_is_too_short_for_a_process_that_joins_later_hides_nothing() {
    const OPEN: u64 = 4_711;
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let old = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&old).await;
    old.insert(&OPEN).await.unwrap();
    // 15 minutes and 30 seconds.
    let new = guard(&redis.url()).build().unwrap();
    live(&new).await;
    let (answer, answered) = has_read(&new, &table, OPEN).await;
    table.commit(OPEN);
    passes(&redis, Duration::from_millis(4_500)).await;
    answer.send(()).unwrap();
    assert_eq!(answered.await.unwrap(), 404, "it has read before the commit");
    for guard in [&old, &new] {
        assert_eq!(get_looked_up(guard, &table, OPEN).await, 200, "hidden by a null");
    }
}

/// Redis's clock was two days ahead once.
#[tokio::test]
async fn a_clock_set_back_does_not_start_a_rebuild_storm() {
    struct Counting(Table, Arc<AtomicU64>);
    impl RebuildSource for Counting {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            RebuildSource::scan(&self.0, ids).await
        }
    }
    let redis = RedisServer::start();
    let now: (u64, u64) = redis.run(&["TIME"]);
    let future = (now.0 + 2 * 86_400) * 1_000_000;
    redis.run::<i64>(&["HSET", META, "epoch", &future.to_string()]);
    let scans = Arc::new(AtomicU64::new(0));
    let source = Counting(Table::with(0..1_000), Arc::clone(&scans));
    let hourly = Schedule::every(Duration::from_secs(3600));
    let guard = guard(&redis.url()).rebuild(hourly, source).build().unwrap();
    live(&guard).await;
    passes(&redis, Duration::from_secs(4)).await;
    let scans = scans.load(Ordering::SeqCst);
    assert!(scans <= 2, "{scans} scans of the database in 4 s, once an hour was asked for");
}
