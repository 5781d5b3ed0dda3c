//! Ten million confirmed checks of ids that exist, against a real Redis, while ids are inserted, filters are rebuilt, and
//! Redis is killed, emptied, paused and cut off.
//!
//! `cargo bench -p bloom-guard-tests --bench storm` prints what was asked and answered, and fails if an id that exists
//! was refused. `STORM_CHECKS` sets another number of checks. It needs `redis-server` on the PATH.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, Verdict};
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Ids that are there from the start.
const IDS: u64 = 200_000;
/// Processes, as it were: each a guard with connections of its own.
const GUARDS: u64 = 2;
/// Checks under way in each.
const IN_FLIGHT: u64 = 256;
/// Of the checks, every other is for one of so many ids that were created last.
const NEWEST: u64 = 1_000;
/// Ids a create.
const CREATED: u64 = 10;
const BETWEEN_CREATES: Duration = Duration::from_millis(10);
const BETWEEN_REBUILDS: Duration = Duration::from_millis(700);
const BETWEEN_MISHAPS: Duration = Duration::from_secs(4);
/// At least.
const MISHAPS: u64 = 15;
/// One check in so many is for an id that does not exist.
const ABSENT: u64 = 64;

/// What happens, and what was seen.
#[derive(Default)]
struct Storm {
    table: Table,
    /// How many ids each guard has created.
    created: [AtomicU64; GUARDS as usize],
    present: AtomicU64,
    unknown: AtomicU64,
    refused: AtomicU64,
    absent: AtomicU64,
    rebuilds: AtomicU64,
    over: AtomicBool,
}

fn main() {
    let checks = std::env::var("STORM_CHECKS").map_or(10_000_000, |n| n.parse().expect("a number"));
    tokio::runtime::Runtime::new().expect("a runtime").block_on(run(checks));
}

async fn run(checks: u64) {
    let redis = RedisServer::start();
    let storm = Arc::new(Storm { table: Table::with(0..IDS), ..Storm::default() });
    let mut tasks = JoinSet::new();
    for number in 0..GUARDS {
        let builder = guard_over(&redis.url(), &storm.table).capacity(IDS * 10, 0.001);
        let guard = builder.build().expect("a configuration within bounds");
        live(&guard).await;
        for task in 0..IN_FLIGHT {
            tasks.spawn(Arc::clone(&storm).check(guard.clone(), number * IN_FLIGHT + task));
        }
        tasks.spawn(Arc::clone(&storm).create(guard.clone(), number));
        tasks.spawn(Arc::clone(&storm).rebuild(guard));
    }
    let begun = Instant::now();
    let befalls = Arc::clone(&storm);
    let mishaps =
        tokio::task::spawn_blocking(move || befalls.befall(redis, checks)).await.expect("they end");
    storm.over.store(true, SeqCst);
    tasks.join_all().await;
    let [present, unknown, refused, absent, rebuilds] =
        [&storm.present, &storm.unknown, &storm.refused, &storm.absent, &storm.rebuilds]
            .map(|count| count.load(SeqCst));
    let created: u64 = storm.created.iter().map(|count| count.load(SeqCst)).sum();
    println!(
        "{present} checks of ids that exist confirmed in {:.0} s, {unknown} unknown, {refused} refused",
        begun.elapsed().as_secs_f64()
    );
    println!(
        "meanwhile {created} ids created, {rebuilds} rebuilds, {mishaps} mishaps, {absent} absent ids refused"
    );
    assert_eq!(refused, 0, "ids that exist were refused");
    assert!(absent > 0 && rebuilds > 0 && created > 0, "the guard was at work");
}

impl Storm {
    /// Checks until it is over.
    async fn check(self: Arc<Self>, guard: BloomGuard, seed: u64) {
        let mut random = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        while !self.over.load(SeqCst) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let exists = !random.is_multiple_of(ABSENT);
            let id = if exists { self.existing(random >> 8) } else { random | 1 << 63 };
            let count = match guard.check(&id).await.expect("an id") {
                Verdict::Absent(_) if !exists => &self.absent,
                _ if !exists => continue,
                Verdict::Absent(_) => &self.refused,
                Verdict::Unknown(_) => {
                    sleep(Duration::from_millis(1)).await;
                    &self.unknown
                }
                _ => &self.present,
            };
            count.fetch_add(1, SeqCst);
        }
    }

    /// An id whose row is committed.
    fn existing(&self, random: u64) -> u64 {
        let number = random % GUARDS;
        let created = self.created[number as usize].load(SeqCst);
        if random & 2 == 0 || created == 0 {
            return (random >> 8) % IDS;
        }
        let newest = created.min(NEWEST);
        Self::id(number, created - 1 - (random >> 8) % newest)
    }

    /// The ids that a guard creates, one after the other.
    fn id(number: u64, nth: u64) -> u64 {
        IDS + nth * GUARDS + number
    }

    async fn create(self: Arc<Self>, guard: BloomGuard, number: u64) {
        let created = &self.created[number as usize];
        while !self.over.load(SeqCst) {
            let first = created.load(SeqCst);
            let ids: Vec<u64> = (first..first + CREATED).map(|nth| Self::id(number, nth)).collect();
            // Without an acknowledgement the row is not committed; the next try is for the same ids.
            if guard.insert_many(&ids).await.is_ok() {
                ids.iter().for_each(|id| self.table.commit(*id));
                created.fetch_add(CREATED, SeqCst);
            }
            sleep(BETWEEN_CREATES).await;
        }
    }

    async fn rebuild(self: Arc<Self>, guard: BloomGuard) {
        while !self.over.load(SeqCst) {
            let rebuilt = guard.rebuild_now().await.is_ok();
            self.rebuilds.fetch_add(u64::from(rebuilt), SeqCst);
            sleep(BETWEEN_REBUILDS).await;
        }
    }

    /// Lets one thing after the other befall Redis until so many checks were confirmed; returns how many did.
    fn befall(&self, mut redis: RedisServer, checks: u64) -> u64 {
        let mut mishaps = 0;
        while self.present.load(SeqCst) < checks || mishaps < MISHAPS {
            std::thread::sleep(BETWEEN_MISHAPS);
            match mishaps % 5 {
                0 => drop(redis.try_run::<i64>(&["CLIENT", "KILL", "TYPE", "normal"])),
                1 => drop(redis.try_run::<String>(&["SAVE"])),
                // With what it had when it was saved last.
                2 => redis.restart(),
                3 => {
                    redis.pause();
                    std::thread::sleep(Duration::from_millis(700));
                    redis.resume();
                }
                _ => drop(redis.try_run::<String>(&["FLUSHALL"])),
            }
            mishaps += 1;
        }
        mishaps
    }
}
