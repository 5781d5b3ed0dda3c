//! Processes that disagree about how long a transaction takes.

use std::time::Duration;

use super::{has_read, passes};
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
