//! An incarnation's first swap waits until Redis has been at work for two seconds. That time runs beside the scan.

use std::time::{Duration, Instant};

use bloom_guard::BloomGuard;

use super::{META, held};
use support::eventually;
use support::model::{Table, live};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;

const WAIT: Duration = Duration::from_secs(2);
/// Longer than may lie between two notes that Redis is at work.
const STANDSTILL: Duration = Duration::from_millis(600);

#[tokio::test]
async fn a_scan_that_took_longer_is_followed_by_no_wait() {
    for _ in 0..5 {
        let redis = RedisServer::start();
        let table = Table::with(0..1_000);
        let (guard, gate) = held(&redis, &table, 0, &[]);
        at_work(&redis).await;
        if until_live(&guard, &gate).await < WAIT * 3 / 4 {
            return;
        }
        // The machine stood still for a quarter of a second, as one that is shared may.
    }
    panic!("each of five first swaps waited after its scan");
}

#[tokio::test]
async fn a_redis_that_stood_still_during_the_scan_begins_the_wait_anew() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, gate) = held(&redis, &table, 0, &[]);
    at_work(&redis).await;
    redis.pause();
    let paused = Instant::now();
    eventually("redis stands still", STANDSTILL * 2, || async {
        if paused.elapsed() > STANDSTILL { Ok(()) } else { Err("not long enough".to_owned()) }
    })
    .await;
    redis.resume();
    let took = until_live(&guard, &gate).await;
    assert!(took > WAIT * 9 / 10, "{took:?}");
}

/// Waits until it is noted that Redis has worked for long enough.
async fn at_work(redis: &RedisServer) {
    eventually("redis has been at work", Duration::from_secs(20), || async {
        let works: Option<String> =
            redis.try_run(&["HGET", META, "works"]).map_err(|error| error.to_string())?;
        let works = works.ok_or("not yet")?;
        let [_, since, last] = works.split(' ').collect::<Vec<_>>()[..] else { panic!("{works}") };
        let [since, last] = [since, last].map(|ms| ms.parse::<u64>().unwrap());
        if last - since > WAIT.as_millis() as u64 { Ok(()) } else { Err(works.clone()) }
    })
    .await;
}

/// Ends the scan; returns how long it took from there until a filter is live.
async fn until_live(guard: &BloomGuard, gate: &Semaphore) -> Duration {
    let ended = Instant::now();
    gate.add_permits(1);
    live(guard).await;
    ended.elapsed()
}
