//! Clocks that stand still or jump: this machine is suspended, or Redis's clock is set.

use std::sync::mpsc;
use std::time::Duration;

use bloom_guard::{NegativeCaching, Verdict};
use tokio::sync::oneshot;
use tokio::time::{pause, resume};

use super::{META, has_read, passes};
use support::model::{Table, get_looked_up, guard_over, live};
use support::redis_server::RedisServer;

/// Stops this process's clock, as that of a suspended machine, until so much time has passed for Redis, in which it is told something,
/// and `at_once` is over: until then no timer ends, and nothing is polled.
async fn suspended<T>(
    redis: &RedisServer,
    time: Duration,
    told: Option<redis::Cmd>,
    at_once: impl Future<Output = T>,
) -> T {
    fn now(connection: &mut redis::Connection) -> Duration {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
        Duration::from_micros(seconds * 1_000_000 + micros)
    }
    fn passes(time: Duration, connection: &mut redis::Connection) {
        let since = now(connection);
        while now(connection) - since < time {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let mut connection = redis.connection();
    let (wakes, woken) = oneshot::channel();
    let (ends, ended) = mpsc::channel::<()>();
    pause();
    // While a thread works, a clock that stands still is not advanced to the next timer.
    let thread = tokio::task::spawn_blocking(move || {
        // A poll may be under way, which is to end before.
        passes(Duration::from_millis(500), &mut connection);
        told.iter().for_each(|told| told.exec(&mut connection).unwrap());
        passes(time, &mut connection);
        wakes.send(()).unwrap();
        ended.recv().ok();
    });
    woken.await.unwrap();
    let seen = at_once.await;
    drop(ends);
    thread.await.unwrap();
    resume();
    seen
}

/// A handler has read the table; then the machine is suspended for longer than the record of inserts reaches back.
#[tokio::test]
async fn a_404_from_before_this_machine_was_suspended_hides_no_record() {
    const OPEN: u64 = 4_711;
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(1))
        .negative_caching(NegativeCaching::new().handler_time(Duration::from_secs(3)))
        .build()
        .unwrap();
    live(&guard).await;
    guard.insert(&OPEN).await.unwrap();
    let (answer, answered) = has_read(&guard, &table, OPEN).await;
    table.commit(OPEN);
    suspended(&redis, Duration::from_millis(10_200), None, async {}).await;
    // Time for a look at Redis's clock, and not so much that the handler was too slow.
    passes(&redis, Duration::from_millis(1_500)).await;
    answer.send(()).unwrap();
    assert_eq!(answered.await.unwrap(), 404, "it has read before the commit");
    assert_eq!(get_looked_up(&guard, &table, OPEN).await, 200, "hidden by a null");
}

/// Meanwhile the fleet was switched off, or told that the filter settles again: processes without the guard may create records.
#[tokio::test]
async fn a_process_whose_machine_was_suspended_believes_no_absence_that_the_fleet_does_not() {
    let later = [("mode_at", "4000000000000000"), ("settles", "4000000000000")];
    // By id, and by a fence.
    for ((field, value), ids) in later.into_iter().flat_map(|later| [(later, 1), (later, 100)]) {
        let redis = RedisServer::start();
        let guard = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
        live(&guard).await;
        let mut told = redis::cmd("HSET");
        told.arg(META).arg(field).arg(value);
        let ids: Vec<u64> = (5_000..5_000 + ids).collect();
        let checked = guard.check_many(&ids);
        let found = suspended(&redis, Duration::from_millis(100), Some(told), checked).await;
        let found = found.unwrap();
        assert!(found.iter().all(|it| matches!(it, Verdict::Unknown(_))), "{field}: {found:?}");
    }
}
