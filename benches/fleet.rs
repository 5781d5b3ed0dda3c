//! A fleet whose copies answer for absent ids, while ids are inserted, over a rebuild, and beside an import.
//!
//! `cargo bench -p bloom-guard-tests --bench fleet` has the guards of some processes check absent ids at a fixed rate, each with a
//! copy of its own, and prints of each phase which share of ids a fence answered for, what Redis did for one, and how long it took.
//! `GUARDS`, `IDS` (the filter's capacity, at 0.1 %), `RATE` (checks a second of all) and `IMPORT` (ids; 0 for none) set other numbers. It
//! needs Linux, and `redis-server` on the PATH.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, PathPattern, Schedule, SecretKey, Verdict, from_iter};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

/// Tasks that check, each an id at a time.
const CLIENTS: u64 = 64;
const PHASE: Duration = Duration::from_secs(10);
/// How long copies of a new filter are waited for: [`Schedule`]'s processes read theirs within five minutes.
const COPIED: Duration = Duration::from_secs(400);
/// The first id that no phase creates.
const ABSENT: u64 = 1 << 40;
/// How many ids a call of the import inserts.
const CALL: u64 = 10_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn guard(redis: &RedisServer, ids: u64) -> BloomGuard {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
        .redis(&redis.url())
        .capacity(ids, 0.001)
        .secret_key(SecretKey::new([7; 16]))
        .settle(Duration::ZERO)
        .copy_limit(u64::MAX)
        .audits_per_second(0)
        .rebuild(Schedule::manual(), from_iter(move || 0..ids / 2))
        .build()
        .expect("a configuration within bounds")
}

/// What has been done so far.
#[derive(Clone, Copy)]
struct Done {
    at: Instant,
    checks: u64,
    by_fence: u64,
    redis_cpu: f64,
    commands: f64,
}

struct Fleet {
    redis: RedisServer,
    guards: Vec<BloomGuard>,
    next: AtomicU64,
    done: AtomicBool,
    times: Mutex<Vec<Duration>>,
    unknown: AtomicU64,
}

impl Fleet {
    fn now(&self) -> Done {
        let info: String = self.redis.run(&["INFO", "all"]);
        let field = |name: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.parse().ok()).expect("redis says so")
        };
        let (mut checks, mut by_fence) = (0, 0);
        for guard in &self.guards {
            let stats = guard.stats();
            let made =
                stats.present + stats.absent_by_filter + stats.absent_by_null + stats.unknown;
            checks += made;
            by_fence += guard.state().copy.map_or(0, |copy| copy.fenced);
        }
        Done {
            at: Instant::now(),
            checks,
            by_fence,
            redis_cpu: field("used_cpu_sys:") + field("used_cpu_user:"),
            commands: field("total_commands_processed:"),
        }
    }

    /// Checks absent ids at this rate, until the fleet is done.
    async fn check(self: Arc<Self>, client: u64, rate: u64) {
        let every = Duration::from_nanos(1_000_000_000 * CLIENTS / rate);
        let guard = &self.guards[client as usize % self.guards.len()];
        let mut due = tokio::time::Instant::now() + every.mul_f64(client as f64 / CLIENTS as f64);
        while !self.done.load(Ordering::Relaxed) {
            sleep_until(due).await;
            due += every;
            let id = ABSENT + self.next.fetch_add(1, Ordering::Relaxed);
            let begun = Instant::now();
            let verdict = guard.check(&id).await.expect("an id");
            self.times.lock().expect("no panic").push(begun.elapsed());
            if matches!(verdict, Verdict::Unknown(_)) {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Prints what was done since then.
    fn print(&self, phase: &str, before: Done) {
        let now = self.now();
        let checks = (now.checks - before.checks) as f64;
        let took = now.at - before.at;
        let mut times = std::mem::take(&mut *self.times.lock().expect("no panic"));
        times.sort();
        let at = |part: f64| times[(part * (times.len() - 1) as f64) as usize].as_secs_f64() * 1e3;
        println!(
            "| {phase} | {:.0} | {:.0} | {:.1} | {:.2} | {:.2} | {:.2}, {:.1} | {} |",
            took.as_secs_f64(),
            checks / took.as_secs_f64(),
            now.by_fence.saturating_sub(before.by_fence) as f64 * 100.0 / checks,
            (now.redis_cpu - before.redis_cpu) * 1e6 / checks,
            (now.commands - before.commands) / checks,
            at(0.5),
            at(0.99),
            self.unknown.swap(0, Ordering::Relaxed),
        );
    }

    /// Waits until each guard has a copy of the live filter.
    async fn copied(&self) {
        let begun = Instant::now();
        let is_copied = |guard: &BloomGuard| {
            let state = guard.state();
            let live = state.live.ok().map(|live| live.generation);
            live.is_some() && state.copy.map(|copy| copy.generation) == live
        };
        while !self.guards.iter().all(is_copied) {
            assert!(begun.elapsed() < COPIED, "copies are missing");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until fences answer for a tenth of all checks of a second.
    async fn fences_again(&self) -> Duration {
        let begun = Instant::now();
        loop {
            let before = self.now();
            sleep(Duration::from_secs(1)).await;
            let now = self.now();
            if now.by_fence.saturating_sub(before.by_fence) * 10 > now.checks - before.checks {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < COPIED, "fences answer for nothing");
        }
    }

    /// Inserts so many ids a second for a phase, from this one on; returns how many failed.
    async fn insert(self: &Arc<Self>, from: u64, rate: u64) -> usize {
        let begun = tokio::time::Instant::now();
        let mut inserts = JoinSet::new();
        for nth in 0..rate * PHASE.as_secs() {
            sleep_until(begun + Duration::from_nanos(nth * 1_000_000_000 / rate)).await;
            let guard = self.guards[nth as usize % self.guards.len()].clone();
            inserts.spawn(async move { guard.insert(&(from + nth)).await.is_err() });
        }
        inserts.join_all().await.into_iter().filter(|failed| *failed).count()
    }
}

/// Bytes that this process has in memory, MB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("linux says so");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1.024e-3
}

/// Imports ids by one guard while the others check; half-way another one rebuilds. Returns how many were refused after their call.
async fn import(fleet: &Arc<Fleet>, from: u64, count: u64) -> usize {
    let mut refused = 0;
    let mut rebuilding = None;
    let begun = Instant::now();
    for first in (from..from + count).step_by(CALL as usize) {
        fleet.guards[0].insert_many(first..first + CALL).await.expect("redis is there");
        let reader = &fleet.guards[first as usize / CALL as usize % fleet.guards.len()];
        let sample = (first..first + CALL).step_by(97);
        let verdicts = reader.check_many(sample).await.expect("ids");
        refused += verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Absent(_))).count();
        if first >= from + count / 2 && rebuilding.is_none() {
            let guard = fleet.guards.last().expect("a guard").clone();
            rebuilding = Some(tokio::spawn(async move { guard.rebuild_now().await }));
        }
    }
    println!("<!-- {count} ids imported in {:.1} s -->", begun.elapsed().as_secs_f64());
    // Where the record lacks inserts whose transactions may be open, it waits for minutes.
    let rebuilding = rebuilding.expect("a rebuild");
    println!("<!-- its rebuild is over: {} -->", rebuilding.is_finished());
    rebuilding.abort();
    refused
}

#[tokio::main]
async fn main() {
    let count = setting("GUARDS", 4);
    let ids = setting("IDS", 7_200_000);
    let rate = setting("RATE", 20_000);
    let redis = RedisServer::start();
    let guards: Vec<_> = (0..count).map(|_| guard(&redis, ids)).collect();
    for guard in &guards {
        guard.ready().await;
    }
    let fleet = Arc::new(Fleet {
        redis,
        guards,
        next: AtomicU64::new(0),
        done: AtomicBool::new(false),
        times: Mutex::default(),
        unknown: AtomicU64::new(0),
    });
    fleet.copied().await;
    let bytes = fleet.guards[0].state().copy.map_or(0, |copy| copy.bytes);
    println!(
        "{count} guards, copies of {:.0} MB, {rate} checks of absent ids a second\n",
        bytes as f64 / 1e6
    );
    println!(
        "| | s | checks/s | by a fence, % | Redis: CPU µs | commands a check | p50, p99 ms | unknown |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| tokio::spawn(Arc::clone(&fleet).check(client, rate))).collect();
    sleep(Duration::from_secs(2)).await;
    fleet.times.lock().expect("no panic").clear();
    let mut from = ids;
    for inserts in [0, 100, 1_000] {
        let before = fleet.now();
        let ((), failed) = tokio::join!(sleep(PHASE), fleet.insert(from, inserts));
        fleet.print(&format!("{inserts} inserts a second, {failed} failed"), before);
        from += inserts * PHASE.as_secs();
    }
    let before = fleet.now();
    let report = fleet.guards[0].rebuild_now().await.expect("a rebuild");
    fleet.print(&format!("a rebuild of {:.1} s", report.took.as_secs_f64()), before);
    let before = fleet.now();
    fleet.copied().await;
    fleet.print("until all have copied it", before);
    let imported = setting("IMPORT", 0);
    if imported > 0 {
        let at_first = memory();
        let before = fleet.now();
        let refused = import(&fleet, from, imported).await;
        fleet.print("an import, and a rebuild beside it", before);
        let used: String = fleet.redis.run(&["MEMORY", "USAGE", "bg:{users}:recent"]);
        println!(
            "<!-- refused {refused}; record {used} bytes; process {at_first:.0} MB, then {:.0} MB -->",
            memory()
        );
        assert_eq!(refused, 0, "existing ids are refused");
        let before = fleet.now();
        let again = fleet.fences_again().await;
        fleet.print("until one id in ten is answered for by fences again", before);
        println!("<!-- after {again:.0?} -->");
    }
    fleet.done.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no panic");
    }
}
