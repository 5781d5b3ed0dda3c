//! Redis is killed, restarted empty, flushed, and a rebuild takes its time, under a flood of absent ids at four times the
//! lane's rate: requests for ids that existed when the filter was copied are not held up.
//!
//! `OUTAGE_SECONDS` is how long each of them lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{BloomGuard, BoxError, Schedule};
use http::StatusCode;
use support::eventually;
use support::model::{Strangers, Table, by_default, copied, get, live};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::seconds;

const IDS: u64 = 50_000;
const LANE: (u32, u32) = (16, 100);
/// In each, as many requests for ids that exist, which nobody has asked for, as for others.
const TICK: Duration = Duration::from_millis(10);
const PER_TICK: u64 = 4 * LANE.1 as u64 / 100;
const LONG: Duration = Duration::from_secs(20);

/// A table whose scans wait for a permit.
struct Held {
    table: Table,
    gate: Arc<Semaphore>,
}

impl RebuildSource for Held {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        self.gate.acquire().await?.forget();
        RebuildSource::scan(&self.table, ids).await
    }
}

struct Site {
    guard: BloomGuard,
    table: Table,
    gate: Arc<Semaphore>,
    next: AtomicU64,
    strangers: AtomicU64,
}

impl Site {
    async fn new(redis: &RedisServer) -> Self {
        let (table, gate) = (Table::with(0..IDS), Arc::new(Semaphore::new(1)));
        let source = Held { table: table.clone(), gate: Arc::clone(&gate) };
        // Each id is asked for once, so that none is found lately.
        let guard = by_default(&redis.url())
            .check_deadline(Duration::from_millis(250))
            .lane(LANE.0, LANE.1)
            .rebuild(Schedule::every(Duration::from_secs(3600)), source)
            .build()
            .unwrap();
        live(&guard).await;
        copied(&guard).await;
        Self { guard, table, gate, next: AtomicU64::new(0), strangers: AtomicU64::new(1) }
    }

    /// Sends both kinds of requests for a while.
    async fn flood(&self, what: &str, time: Duration) {
        let (begun, mut ticks) = (Instant::now(), interval(TICK));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut sent: JoinSet<(bool, StatusCode)> = JoinSet::new();
        while begun.elapsed() < time {
            ticks.tick().await;
            for _ in 0..PER_TICK {
                let existing = self.next.fetch_add(1, Ordering::Relaxed) % IDS;
                let seed = self.strangers.fetch_add(1, Ordering::Relaxed);
                let absent = Strangers(seed).next().unwrap();
                for (exists, id) in [(true, existing), (false, absent)] {
                    let (guard, table) = (self.guard.clone(), self.table.clone());
                    sent.spawn(async move { (exists, get(&guard, &table, id).await) });
                }
            }
        }
        let answers = sent.join_all().await;
        let count = |exists, status| answers.iter().filter(|it| **it == (exists, status)).count();
        let [served, busy] =
            [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].map(|status| count(true, status));
        assert_eq!((served, busy), (answers.len() / 2, 0), "{what}");
    }

    async fn rebuilt(&self, what: &str) {
        self.gate.add_permits(1);
        eventually(what, LONG, || async {
            let state = self.guard.state();
            if state.is_ready() { Ok(()) } else { Err(state.to_string()) }
        })
        .await;
        copied(&self.guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_redis_no_id_that_the_copy_holds_is_answered_503() {
    let mut redis = RedisServer::start();
    let site = Site::new(&redis).await;
    site.flood("all is well", seconds()).await;
    let lookups = site.guard.stats().unknown;
    redis.kill();
    site.flood("killed", seconds()).await;
    assert!(site.guard.stats().unknown > lookups, "Redis was away");
    redis.restart();
    site.flood("restarted, empty, not rebuilt", seconds()).await;
    site.rebuilt("it is rebuilt after a restart").await;
    redis.run::<()>(&["FLUSHALL"]);
    site.flood("flushed, not rebuilt", seconds()).await;
    site.rebuilt("it is rebuilt after a flush").await;
    let rebuilding = {
        let guard = site.guard.clone();
        tokio::spawn(async move { guard.rebuild_now().await })
    };
    site.flood("a rebuild that takes long", seconds()).await;
    assert!(!rebuilding.is_finished());
    site.gate.add_permits(1);
    rebuilding.await.unwrap().unwrap();
    site.flood("rebuilt", seconds()).await;
}
