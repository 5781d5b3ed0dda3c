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
const STANDSTILL: Duration = Duration::from_millis(1200);

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
        // The machine stood still, as one that is shared may.
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
        let noted: Option<Vec<u8>> =
            redis.try_run(&["HGET", META, "worked"]).map_err(|error| error.to_string())?;
        let noted = String::from_utf8_lossy(&noted.ok_or("not yet")?).into_owned();
        let worked = noted.rsplit(' ').nth(1).unwrap().parse::<u128>().unwrap();
        if worked >= WAIT.as_millis() { Ok(()) } else { Err(format!("{worked} ms")) }
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
