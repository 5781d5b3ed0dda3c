//! A million existing ids, none refused; absent ones let through at the rate that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Builder, PathPattern, Schedule, Verdict, from_iter};
use support::model::{Table, brief, guard_over};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;

const IDS: u64 = 1_000_000;
const RATE: f64 = 0.01;
/// Checks in flight at once: below the store's own bound.
const WORKERS: u64 = 512;

fn builder() -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .capacity(IDS, RATE)
        .rebuild(Schedule::manual(), from_iter(|| 0..IDS))
}

/// Checks all ids of a range; returns how many were present and how many absent.
async fn check_all(guard: &BloomGuard, ids: std::ops::Range<u64>) -> (u64, u64) {
    let counts = Arc::new([const { AtomicU64::new(0) }; 2]);
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (guard, counts, ids) = (guard.clone(), Arc::clone(&counts), ids.clone());
        workers.spawn(async move {
            for id in ids.skip(worker as usize).step_by(WORKERS as usize) {
                let kind = match guard.check(&id).await.unwrap() {
                    Verdict::Present => 0,
                    Verdict::Absent(_) => 1,
                    other => panic!("{id}: {other:?}"),
                };
                counts[kind].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    (counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed))
}

async fn a_million_ids(guard: &BloomGuard, absent: u64) {
    guard.ready().await;
    assert_eq!(check_all(guard, 0..IDS).await, (IDS, 0), "existing ids, and those refused");
    let (passed, refused) = check_all(guard, IDS..IDS + absent).await;
    let rate = passed as f64 / (passed + refused) as f64;
    assert!((rate / RATE - 1.0).abs() < 0.1, "false-positive rate {rate}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_existing_id_is_refused_in_process() {
    a_million_ids(&builder().in_process().build().unwrap(), 300_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_existing_id_is_refused_through_redis() {
    let redis = RedisServer::start();
    let builder = builder().redis(&redis.url()).settle(Duration::ZERO);
    let guard = builder.check_deadline(Duration::from_secs(10)).build().unwrap();
    a_million_ids(&guard, 200_000).await;
}

#[tokio::test]
async fn the_smallest_filters_hold_what_they_are_given() {
    let redis = RedisServer::start();
    for (ids, capacity, rate) in [(1_u64, 1, 0.5), (40, 1, 1e-9)] {
        redis.run::<()>(&["FLUSHALL"]);
        let builder = guard_over(&redis.url(), &Table::with(0..ids)).capacity(capacity, rate);
        let guard = brief(builder).build().unwrap();
        guard.ready().await;
        guard.insert_many(100..400_u64).await.unwrap();
        for id in (0..ids).chain(100..400) {
            assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{id}");
        }
        guard.rebuild_now().await.unwrap();
    }
}
