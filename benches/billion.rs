//! A billion ids in 256 shards on one Redis with a replica: what the rebuild takes, and what others feel of it.
//!
//! `cargo bench -p bloom-guard-tests --bench billion` fills a filter by the guard's first rebuild, and rebuilds it while its
//! ids are checked. During both another client pings Redis, and new ids are inserted. It prints a table, and fails if
//!
//! - the process takes more than the bits of the filter and 64 MiB;
//! - Redis takes more than three shards, or 4 MiB if these are less, beyond the filter that was live before and what it has when
//!   the rebuild is over: the live filter, metadata, and what inserts leave there;
//! - the replica's output buffer is 64 MB or more;
//! - an id that exists is refused, of ten million confirmed checks at least.
//!
//! `BILLION_IDS`, `BILLION_SHARDS`, `BILLION_RATE` and `BILLION_CHECKS` set other numbers. It needs Linux, `redis-server`
//! on the PATH, and memory for the filter three times: of the process, of Redis and of its replica.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bloom_guard::from_iter;
use bloom_guard::rebuild::{RebuildReport, RebuildStep};
use bloom_guard::{BloomGuard, PathPattern, Schedule, SecretKey, Verdict};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Tasks that insert, and how many ids they insert a second together.
const INSERTERS: u64 = 20;
const INSERTS_PER_SECOND: u64 = 1_000;
/// The filter has room for so many of them.
const INSERTED: u64 = 1_000_000;
/// Of the checks, every fourth is for one of so many ids that its inserter created last.
const NEWEST: u64 = 1_000;
/// Checks under way.
const IN_FLIGHT: u64 = 64;
const PING_EVERY: Duration = Duration::from_millis(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long checks are counted without a rebuild.
const QUIET: Duration = Duration::from_secs(5);
const ABSENT: u64 = 1_000_000;

const MIB: u64 = 1 << 20;
const PROCESS_BEYOND: u64 = 64 * MIB;
const SHARDS_BEYOND: u64 = 3;
/// Buffers of connections, where shards are small.
const REDIS_BEYOND: u64 = 4 * MIB;
const BUFFER: u64 = 64_000_000;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .map_or(default, |value| value.parse().ok().unwrap_or_else(|| panic!("{name}={value}")))
}

/// How large it is.
#[derive(Clone, Copy)]
struct Scale {
    ids: u64,
    shards: u32,
    rate: f64,
    checks: u64,
}

#[tokio::main]
async fn main() {
    let scale = Scale {
        ids: setting("BILLION_IDS", 1_000_000_000),
        shards: setting("BILLION_SHARDS", 256),
        rate: setting("BILLION_RATE", 0.01),
        checks: setting("BILLION_CHECKS", 10_000_000),
    };
    let redis = RedisServer::start();
    let replica = replica_of(&redis);
    let table = Arc::new(Table::of(scale.ids));
    // What there is without a filter.
    let empty = Empty { redis: used_memory(&redis), process: status("VmRSS:") };
    let guard = guard(&redis, scale, &table);
    let inserting = JoinSet::from_iter(
        (0..INSERTERS).map(|inserter| Arc::clone(&table).insert(guard.clone(), inserter)),
    );

    let watch = Watch::start(&redis, &guard, &table);
    guard.ready().await;
    // It is told of a moment after.
    let report = loop {
        match guard.rebuild_status().last {
            Some(last) => break last.expect("that went live"),
            None => sleep(LOOK_EVERY).await,
        }
    };
    let first = Figures::of("first", &redis, scale, report, watch.stop());
    first.print(&empty);

    let watch = Watch::start(&redis, &guard, &table);
    let checking = Checking::start(&guard, &table);
    let report = rebuild(&guard).await;
    let figures = watch.stop();
    let checks = checking.stop_after(scale.checks).await;
    let second = Figures::of("second, beside checks", &redis, scale, report, figures);
    second.print(&empty);
    checks.print("during the second rebuild");

    let checking = Checking::start(&guard, &table);
    sleep(QUIET).await;
    checking.stop_after(0).await.print("after it");
    let rate = false_positives(&guard, scale).await;
    println!("| false positives of {ABSENT} absent ids | {:.3} % |", rate * 100.0);
    println!("| ids inserted meanwhile | {} |", table.inserted());
    drop((inserting, replica));

    first.judge(0);
    second.judge(first.live);
    assert_eq!(checks.refused, 0, "ids that exist were refused");
    assert!(rate < scale.rate * 1.1, "{rate}");
}

fn guard(redis: &RedisServer, scale: Scale, table: &Arc<Table>) -> BloomGuard {
    let pattern = PathPattern::<u64>::new("/users/{id}").expect("valid");
    let table = Arc::clone(table);
    BloomGuard::builder("users", pattern)
        .redis(&redis.url())
        .capacity(scale.ids + INSERTED, scale.rate)
        .secret_key(SecretKey::new([7; 16]))
        .shards(scale.shards)
        .settle(Duration::ZERO)
        // Copies would take memory, and answer for Redis.
        .copy_limit(0)
        .audits_per_second(0)
        .rebuild(Schedule::manual(), from_iter(move || table.rows()))
        .build()
        .expect("a configuration within bounds")
}

/// Rebuilds, again where a busy machine kept Redis from answering in time.
async fn rebuild(guard: &BloomGuard) -> RebuildReport {
    let mut failures = 0;
    loop {
        match guard.rebuild_now().await {
            Ok(report) => return report,
            Err(error) => {
                println!("| a rebuild failed | {error} |");
                failures += 1;
                assert!(failures < 3, "no rebuild goes live");
            }
        }
    }
}

/// Starts a replica; returns when it follows.
fn replica_of(redis: &RedisServer) -> RedisServer {
    redis.run::<String>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start();
    replica.run::<String>(&["REPLICAOF", "127.0.0.1", &redis.port().to_string()]);
    let begun = Instant::now();
    while !replica.run::<String>(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(begun.elapsed() < Duration::from_secs(20), "the replica does not follow");
        std::thread::sleep(Duration::from_millis(10));
    }
    replica
}

// What there is.

/// The ids that exist: those from 0 on, and what is inserted.
struct Table {
    ids: u64,
    /// How many each task has inserted.
    inserted: [AtomicU64; INSERTERS as usize],
}

impl Table {
    fn of(ids: u64) -> Self {
        Self { ids, inserted: Default::default() }
    }

    /// The ids that a task inserts, one after the other.
    fn id(&self, inserter: u64, nth: u64) -> u64 {
        self.ids + nth * INSERTERS + inserter
    }

    fn inserted(&self) -> u64 {
        self.inserted.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// All rows that are committed now.
    fn rows(self: &Arc<Self>) -> impl Iterator<Item = u64> + Send + use<> {
        let table = Arc::clone(self);
        let inserted = (0..INSERTERS).flat_map(move |inserter| {
            let (count, table) =
                (table.inserted[inserter as usize].load(Relaxed), Arc::clone(&table));
            (0..count).map(move |nth| table.id(inserter, nth))
        });
        (0..self.ids).chain(inserted)
    }

    /// An id whose row is committed.
    fn existing(&self, random: u64) -> u64 {
        let inserter = random % INSERTERS;
        let inserted = self.inserted[inserter as usize].load(Relaxed);
        if !(random >> 8).is_multiple_of(4) || inserted == 0 {
            return (random >> 16) % self.ids;
        }
        let newest = inserted.min(NEWEST);
        self.id(inserter, inserted - 1 - (random >> 16) % newest)
    }

    async fn insert(self: Arc<Self>, guard: BloomGuard, inserter: u64) {
        let count = &self.inserted[inserter as usize];
        let mut ticks =
            interval(Duration::from_secs(1) * INSERTERS as u32 / INSERTS_PER_SECOND as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while count.load(Relaxed) < INSERTED / INSERTERS {
            ticks.tick().await;
            // Without an acknowledgement the row is not committed; the next try is for the same id.
            if guard.insert(&self.id(inserter, count.load(Relaxed))).await.is_ok() {
                count.fetch_add(1, Relaxed);
            }
        }
    }
}

/// What process and Redis take without a filter.
struct Empty {
    redis: u64,
    process: u64,
}

// What is seen.

/// What others see while a rebuild goes on.
struct Watch {
    over: Arc<AtomicBool>,
    pings: JoinHandle<Vec<u32>>,
    looks: JoinHandle<Looks>,
    table: Arc<Table>,
    inserted: u64,
    cpu: [f64; 2],
}

/// What Redis was seen to take.
#[derive(Default)]
struct Looks {
    /// Memory, and how many ids were inserted by then.
    used: Vec<(u64, u64)>,
    /// The replica's output buffer at most.
    buffer: u64,
    /// Steps that were under way, and how often.
    steps: Vec<(RebuildStep, u32)>,
}

struct Seen {
    /// How long each took, µs: many, and the process's memory is measured.
    pings: Vec<u32>,
    looks: Looks,
    inserted: u64,
    cpu: [f64; 2],
}

impl Watch {
    fn start(redis: &RedisServer, guard: &BloomGuard, table: &Arc<Table>) -> Self {
        reset_peak();
        let over = Arc::new(AtomicBool::new(false));
        let (stop, connection) = (Arc::clone(&over), redis.connection());
        let pings = std::thread::spawn(move || ping(connection, &stop));
        let (stop, connection) = (Arc::clone(&over), redis.connection());
        let (guard, looked_at) = (guard.clone(), Arc::clone(table));
        let looks = std::thread::spawn(move || look(connection, &guard, &looked_at, &stop));
        let (inserted, cpu) = (table.inserted(), cpu(redis));
        Self { over, pings, looks, table: Arc::clone(table), inserted, cpu }
    }

    fn stop(self) -> Seen {
        self.over.store(true, Relaxed);
        let mut pings = self.pings.join().expect("the pinging thread");
        pings.sort_unstable();
        let looks = self.looks.join().expect("the looking thread");
        Seen { pings, looks, inserted: self.table.inserted() - self.inserted, cpu: self.cpu }
    }
}

fn ping(mut connection: redis::Connection, over: &AtomicBool) -> Vec<u32> {
    let mut times = Vec::new();
    while !over.load(Relaxed) {
        let begun = Instant::now();
        redis::cmd("PING").exec(&mut connection).expect("a pong");
        times.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
        std::thread::sleep(PING_EVERY);
    }
    times
}

fn look(
    mut connection: redis::Connection,
    guard: &BloomGuard,
    table: &Table,
    over: &AtomicBool,
) -> Looks {
    let mut looks = Looks::default();
    while !over.load(Relaxed) {
        let mut both = redis::pipe();
        both.cmd("INFO").arg("memory");
        both.cmd("CLIENT").arg("LIST").arg("TYPE").arg("replica");
        let (memory, replicas): (String, String) = both.query(&mut connection).expect("an answer");
        looks.used.push((field(&memory, "used_memory:"), table.inserted()));
        let buffers = replicas.split(' ').filter_map(|word| word.strip_prefix("omem="));
        let buffer = buffers.map(|bytes| bytes.parse().expect("a number")).max();
        looks.buffer = looks.buffer.max(buffer.expect("the replica is there"));
        let step = guard.rebuild_status().step;
        match looks.steps.iter_mut().find(|(other, _)| *other == step) {
            Some((_, times)) => *times += 1,
            None => looks.steps.push((step, 1)),
        }
        std::thread::sleep(LOOK_EVERY);
    }
    looks
}

fn field(info: &str, name: &str) -> u64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).expect("redis says so")
}

fn used_memory(redis: &RedisServer) -> u64 {
    field(&redis.run::<String>(&["INFO", "memory"]), "used_memory:")
}

/// What process and Redis have taken of the cores so far, s.
fn cpu(redis: &RedisServer) -> [f64; 2] {
    let info = redis.run::<String>(&["INFO", "cpu"]);
    let used = |name: &str| -> f64 {
        let value = info.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok()).expect("redis says so")
    };
    let stat = std::fs::read_to_string("/proc/self/stat").expect("linux");
    let (_, fields) = stat.rsplit_once(") ").expect("behind the program's name");
    // The user's and the system's, in hundredths of a second on every Linux.
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: f64 = ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum();
    [ticks / 100.0, used("used_cpu_sys:") + used("used_cpu_user:")]
}

/// What Linux says of this process's memory, bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("linux says so");
    kib.parse::<u64>().expect("a number") * 1024
}

/// Has `VmHWM` begin anew.
fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("linux");
}

// What came of it.

/// What one rebuild took.
struct Figures {
    name: &'static str,
    report: RebuildReport,
    seen: Seen,
    /// CPU of the process and of Redis, s.
    cpu: [f64; 2],
    /// The process's memory at most, with the filter in it.
    peak: u64,
    /// And when it is over.
    after: u64,
    /// What the live filter takes in Redis.
    live: u64,
    /// What Redis has when it is over.
    rest: u64,
    /// What it had beyond that, at most.
    beyond: u64,
    /// What an insert leaves in Redis.
    insert: f64,
    shards: u64,
}

impl Figures {
    fn of(
        name: &'static str,
        redis: &RedisServer,
        scale: Scale,
        report: RebuildReport,
        seen: Seen,
    ) -> Self {
        let (peak, after) = (status("VmHWM:"), status("VmRSS:"));
        let now = cpu(redis);
        let cpu = [0, 1].map(|n| now[n] - seen.cpu[n]);
        let keys = |kind: &str| -> u64 {
            let usage = |shard: u32| {
                let key = match scale.shards {
                    1 => format!("bg:{{users}}:{kind}"),
                    shards => format!("bg:{{users#{shard}/{shards}}}:{kind}"),
                };
                redis.run::<Option<u64>>(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).unwrap_or(0)
            };
            (0..scale.shards).map(usage).sum()
        };
        let (rest, live) = (used_memory(redis), keys("bits"));
        let inserted = seen.looks.used.last().map_or(0, |(_, inserted)| *inserted);
        let insert = keys("recent") as f64 / inserted.max(1) as f64;
        // Less had been inserted at each look than by now.
        let then =
            |(used, by_then): &(u64, u64)| used + ((inserted - by_then) as f64 * insert) as u64;
        let most = seen.looks.used.iter().map(then).max().unwrap_or(0);
        let (beyond, shards) = (most.saturating_sub(rest), scale.shards.into());
        Self { name, report, seen, cpu, peak, after, live, rest, beyond, insert, shards }
    }

    fn process_beyond(&self) -> i64 {
        self.peak as i64 - self.report.bytes as i64
    }

    fn print(&self, empty: &Empty) {
        let Self { report, seen, .. } = self;
        let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let s = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let used = seen.looks.used.iter().map(|(used, _)| *used).max().unwrap_or(0);
        println!("\n| rebuild | {} |\n|---|---:|", self.name);
        let row = |what: &str, figure: String| println!("| {what} | {figure} |");
        row("ids from the source", report.ids.to_string());
        row(
            "from the record of recent inserts, of so many inserted meanwhile",
            format!("{}, {}", report.recent, seen.inserted),
        );
        row("the whole", s(report.took));
        row("the scan", s(report.scan_took));
        row("… an id", format!("{:.0} ns", report.scan_took.as_nanos() as f64 / report.ids as f64));
        row("the shards, one after the other", s(report.took - report.scan_took));
        let looks: u32 = seen.looks.steps.iter().map(|(_, times)| times).sum();
        for (step, times) in &seen.looks.steps {
            row(
                &format!("… looks at step {step}"),
                format!("{:.1} %", f64::from(*times) * 100.0 / f64::from(looks)),
            );
        }
        row("CPU of the process, of Redis", format!("{:.1}, {:.1} s", self.cpu[0], self.cpu[1]));
        row("the process's memory at most", mb(self.peak));
        row("… the bits", mb(report.bytes));
        row("… beyond them", format!("{:.1} MiB", self.process_beyond() as f64 / MIB as f64));
        row(
            "… when it is over; without a guard",
            format!("{}; {}", mb(self.after), mb(empty.process)),
        );
        row("Redis's memory at most", mb(used));
        row("… the live filter", mb(self.live));
        row("… an insert's place in the record", format!("{:.0} bytes", self.insert));
        let inserts =
            (seen.looks.used.last().map_or(0, |(_, ids)| *ids) as f64 * self.insert) as u64;
        let others = self.rest.saturating_sub(empty.redis + self.live + inserts);
        row("… metadata, connections and what else stays", mb(others));
        let shards = self.beyond as f64 * self.shards as f64 / self.live as f64;
        row("… beyond all that stays", format!("{}, {shards:.2} shards", mb(self.beyond)));
        row("the replica's output buffer at most", mb(seen.looks.buffer));
        let ping = |part: f64| {
            f64::from(seen.pings[(part * (seen.pings.len() - 1) as f64).ceil() as usize]) / 1e3
        };
        let [p50, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(ping);
        row(
            "pings: p50, p99, p99.9, slowest",
            format!("{p50:.2}, {p99:.2}, {p999:.2}, {most:.2} ms"),
        );
    }

    /// `old` bytes were live before, and are until the new filter is.
    fn judge(&self, old: u64) {
        let name = self.name;
        let beyond = self.process_beyond();
        assert!(
            beyond <= PROCESS_BEYOND as i64,
            "{name}: the process takes {beyond} beyond the bits"
        );
        let room = old + REDIS_BEYOND.max(SHARDS_BEYOND * self.live / self.shards);
        let beyond = self.beyond;
        assert!(beyond <= room, "{name}: Redis takes {beyond} bytes beyond what stays");
        let buffer = self.seen.looks.buffer;
        assert!(buffer < BUFFER, "{name}: the replica's output buffer had {buffer} bytes");
    }
}

// Checks.

/// Clients that check ids that exist, as quickly as they are answered.
struct Checking {
    counts: Arc<Counts>,
    tasks: JoinSet<()>,
    begun: Instant,
}

#[derive(Default)]
struct Counts {
    over: AtomicBool,
    present: AtomicU64,
    /// How many were unknown, and why.
    unknown: Mutex<BTreeMap<&'static str, u64>>,
    refused: AtomicU64,
}

struct Checks {
    present: u64,
    unknown: BTreeMap<&'static str, u64>,
    refused: u64,
    took: Duration,
}

impl Counts {
    fn note_unknown(&self, why: &'static str) {
        *self.unknown.lock().expect("no holder panics").entry(why).or_default() += 1;
    }
}

impl Checking {
    fn start(guard: &BloomGuard, table: &Arc<Table>) -> Self {
        let counts = Arc::new(Counts::default());
        let check = |task| check(guard.clone(), Arc::clone(table), Arc::clone(&counts), task);
        let tasks = (0..IN_FLIGHT).map(check).collect();
        Self { counts, tasks, begun: Instant::now() }
    }

    /// Ends when so many ids were confirmed.
    async fn stop_after(self, checks: u64) -> Checks {
        let Self { counts, tasks, begun } = self;
        while counts.present.load(Relaxed) < checks {
            sleep(LOOK_EVERY).await;
        }
        let took = begun.elapsed();
        counts.over.store(true, Relaxed);
        tasks.join_all().await;
        let [present, refused] =
            [&counts.present, &counts.refused].map(|count| count.load(Relaxed));
        let unknown = counts.unknown.lock().expect("no holder panics").clone();
        Checks { present, unknown, refused, took }
    }
}

impl Checks {
    fn print(&self, when: &str) {
        let Self { present, unknown, refused, took } = self;
        let rate = *present as f64 / took.as_secs_f64();
        println!(
            "| checks of ids that exist, {IN_FLIGHT} in flight, {when} | {present} confirmed, {rate:.0} a second; {refused} refused, unknown: {unknown:?} |"
        );
    }
}

async fn check(guard: BloomGuard, table: Arc<Table>, counts: Arc<Counts>, task: u64) {
    let mut random = (task + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while !counts.over.load(Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let id = table.existing(random);
        match guard.check(&id).await.expect("an id") {
            Verdict::Present => counts.present.fetch_add(1, Relaxed),
            Verdict::Absent(_) => counts.refused.fetch_add(1, Relaxed),
            Verdict::Unknown(doubt) => {
                counts.note_unknown(doubt.as_str());
                sleep(Duration::from_millis(1)).await;
                0
            }
            _ => unreachable!("there is no other verdict"),
        };
    }
}

/// Asks for ids that do not exist; returns which part the filter holds all the same.
async fn false_positives(guard: &BloomGuard, scale: Scale) -> f64 {
    let tasks: JoinSet<u64> = (0..IN_FLIGHT)
        .map(|task| {
            let (guard, first) = (guard.clone(), scale.ids + 2 * INSERTED);
            async move {
                let mut present = 0;
                for id in (first + task..first + ABSENT).step_by(IN_FLIGHT as usize) {
                    present += loop {
                        match guard.check(&id).await.expect("an id") {
                            Verdict::Present => break 1,
                            Verdict::Absent(_) => break 0,
                            _ => sleep(Duration::from_millis(1)).await,
                        }
                    };
                }
                present
            }
        })
        .collect();
    tasks.join_all().await.into_iter().sum::<u64>() as f64 / ABSENT as f64
}
