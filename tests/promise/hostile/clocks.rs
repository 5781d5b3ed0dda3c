//! Clocks that stand still or jump: this machine is suspended, or Redis's clock is set.

use std::time::Duration;

use tokio::time::{pause, resume};

use super::{META, has_read, passes};
use support::eventually;
use support::model::{Table, get_looked_up, guard_over, live};
use support::redis_server::RedisServer;

/// Stops this process's clock, as that of a suspended machine, until so much time has passed for Redis.
async fn suspended(redis: &RedisServer, time: Duration) {
    let now = |connection: &mut redis::Connection| -> Duration {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
        Duration::from_micros(seconds * 1_000_000 + micros)
    };
    let mut connection = redis.connection();
    pause();
    // While a thread works, a clock that stands still is not advanced to the next timer.
    let woken = tokio::task::spawn_blocking(move || {
        let asleep = now(&mut connection);
        while now(&mut connection) - asleep < time {
            std::thread::yield_now();
        }
    });
    woken.await.unwrap();
    resume();
}

/// A handler has read the table; then the machine is suspended for longer than a mark lasts.
#[tokio::test]
async fn a_404_from_before_this_machine_was_suspended_hides_no_record() {
    const OPEN: u64 = 4_711;
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(1))
        .handler_time(Duration::from_secs(3))
        .build()
        .unwrap();
    live(&guard).await;
    guard.insert(&OPEN).await.unwrap();
    let (answer, answered) = has_read(&guard, &table, OPEN).await;
    table.commit(OPEN);
    suspended(&redis, Duration::from_millis(8_200)).await;
    // Time for a look at Redis's clock, and not so much that the handler was too slow.
    passes(&redis, Duration::from_millis(1_500)).await;
    answer.send(()).unwrap();
    assert_eq!(answered.await.unwrap(), 404, "it has read before the commit");
    assert_eq!(get_looked_up(&guard, &table, OPEN).await, 200, "hidden by a null");
}

/// Marks and the journal end by Redis's clock.
#[tokio::test]
async fn when_redis_and_this_machine_disagree_on_how_much_time_has_passed_all_begins_anew() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let incarnation = || redis.run::<Vec<u8>>(&["HGET", META, "inc"]);
    let before = incarnation();
    suspended(&redis, Duration::from_secs(1)).await;
    passes(&redis, Duration::from_millis(1_500)).await;
    assert_eq!(incarnation(), before, "so much may be a slow answer");
    suspended(&redis, Duration::from_millis(3_000)).await;
    eventually("another incarnation", Duration::from_secs(3), || async {
        if incarnation() == before { Err("the same".to_owned()) } else { Ok(()) }
    })
    .await;
    let blind: u64 = redis.run(&["HGET", META, "blind"]);
    let (now, _): (u64, u64) = redis.run(&["TIME"]);
    assert!(blind > now * 1_000 + 1_800_000, "no nulls until all marks would have ended");
    live(&guard).await;
}
