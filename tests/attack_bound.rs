//! What an attacker can make the database do, who collects false positives and repeats them all.

mod support;

use std::time::Duration;

use bloom_guard::{BloomGuard, PathPattern, Schedule, Verdict};
use http::StatusCode;
use support::model::{Table, get};
use tokio::time::{Instant, advance};

const IDS: u64 = 1_000;
const RATE: f64 = 0.05;
/// New absent ids a second.
const REQUESTS: u64 = 100;
/// Seconds from one rebuild to the next.
const PERIOD: u64 = 120;
/// A null's shortest life in seconds: its jitter takes off a tenth at most.
const NULL_TTL: u64 = 10;
const SHORTEST: f64 = NULL_TTL as f64 * 0.9;

async fn guard(table: &Table) -> BloomGuard {
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .unwrap()
        .capacity(IDS, RATE)
        .unwrap()
        .negative_ttl(Duration::from_secs(NULL_TTL))
        .unwrap()
        .rebuild(Schedule::manual(), table.clone())
        .build();
    guard.rebuild_now().await.unwrap();
    guard
}

#[tokio::test(start_paused = true)]
async fn the_database_sees_no_more_than_the_bound_of_look_ups_for_absent_ids() {
    let table = Table::with(0..IDS);
    let guard = guard(&table).await;
    let mut fresh = IDS..;
    let mut found = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(PERIOD) {
        for id in fresh.by_ref().take(REQUESTS as usize) {
            let before = table.lookups();
            assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
            if table.lookups() > before {
                found.push(id);
            }
        }
        for id in &found {
            assert_eq!(get(&guard, &table, *id).await, StatusCode::NOT_FOUND);
        }
        advance(Duration::from_secs(1)).await;
    }

    let lookups = table.lookups() as f64;
    let period = PERIOD as f64;
    let finds = REQUESTS as f64 * RATE * period;
    let bound = finds * (1.0 + period / SHORTEST);
    assert!(lookups <= bound, "{lookups} look-ups, the bound is {bound}");
    // The attack was one: it found what there is to find, and repeating it was worth something.
    let share = found.len() as f64 / finds;
    assert!((0.8..1.2).contains(&share), "{} false positives, {finds} expected", found.len());
    assert!(lookups > 3.0 * finds, "{lookups}");

    // All that was collected is worth nothing once the seed is another.
    guard.rebuild_now().await.unwrap();
    let mut still = 0;
    for id in &found {
        still += usize::from(guard.check(id).await.unwrap() == Verdict::Present);
    }
    assert!(still * 5 < found.len(), "{still} of {}", found.len());
}
