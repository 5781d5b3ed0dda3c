//! Ten million ids from memory, rebuilt in this process and into Redis, and copied by twenty guards, while others go on.
//!
//! `cargo bench -p bloom-guard-tests --bench rebuild` prints how long each took, how long the PINGs of another client
//! of Redis took, and how late tasks of the same runtime woke that sleep a millisecond at a time. `REBUILD_IDS` sets
//! another number of ids. It needs `redis-server` on the PATH.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bloom_guard::rebuild::RebuildReport;
use bloom_guard::{BloomGuard, Builder, PathPattern, Schedule, from_iter};
use support::redis_server::RedisServer;

/// Guards that copy the filter.
const COPIES: usize = 20;
/// Tasks that sleep.
const SLEEPERS: usize = 8;
const TICK: Duration = Duration::from_millis(1);
/// How long the machine is looked at without a rebuild.
const QUIET: Duration = Duration::from_secs(3);

fn main() {
    let ids = std::env::var("REBUILD_IDS").map_or(10_000_000, |ids| ids.parse().expect("a number"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let redis = RedisServer::start();
        let (pings, ticks) = (Pings::start(&redis), Ticks::start());
        tokio::time::sleep(QUIET).await;
        println!("without a rebuild:");
        ticks.stop().await.print("ticks' lateness");
        pings.stop().print("pings");
        println!("{ids} ids in this process:");
        rebuild(builder(ids).in_process()).await;
        println!("{ids} ids into redis, by the guard's first rebuild:");
        let pings = Pings::start(&redis);
        rebuild(on(&redis, ids)).await;
        pings.stop().print("pings");
        println!("{COPIES} guards copy it at once:");
        let pings = Pings::start(&redis);
        copy(&redis, ids).await;
        pings.stop().print("pings");
    });
}

fn builder(ids: u64) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
        .capacity(ids, 0.001)
        .rebuild(Schedule::manual(), from_iter(move || 0..ids))
}

fn on(redis: &RedisServer, ids: u64) -> Builder {
    builder(ids).redis(&redis.url()).settle(Duration::ZERO)
}

/// Has guards begin together, and waits until each has its copy.
async fn copy(redis: &RedisServer, ids: u64) {
    let guard = || on(redis, ids).copy_limit(u64::MAX).build().expect("valid");
    let guards: Vec<_> = (0..COPIES).map(|_| guard()).collect();
    let begun = Instant::now();
    let mut bytes = 0;
    for guard in &guards {
        guard.ready().await;
        let copy = loop {
            match guard.state().copy {
                Some(copy) => break copy,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        bytes += copy.bytes;
    }
    println!("  {:.0} MB in {:.1} s", bytes as f64 / 1e6, begun.elapsed().as_secs_f64());
}

async fn rebuild(builder: Builder) {
    let guard = builder.build().expect("a configuration within bounds");
    let ticks = Ticks::start();
    let begun = Instant::now();
    guard.ready().await;
    let took = begun.elapsed();
    let ticks = ticks.stop().await;
    let report: RebuildReport =
        guard.rebuild_status().last.expect("a rebuild").expect("that went live");
    println!("  from build() to ready:  {:>8.2} s", took.as_secs_f64());
    println!("  the rebuild itself:     {:>8.2} s", report.took.as_secs_f64());
    println!("  of it the scan:         {:>8.2} s", report.scan_took.as_secs_f64());
    ticks.print("ticks' lateness");
}

/// A client that pings once a millisecond and keeps the times.
struct Pings {
    done: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Duration>>,
}

impl Pings {
    fn start(redis: &RedisServer) -> Self {
        let mut connection = redis.connection();
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                redis::cmd("PING").exec(&mut connection).expect("a pong");
                times.push(begun.elapsed());
                std::thread::sleep(TICK);
            }
            times
        });
        Self { done, thread }
    }

    fn stop(self) -> Times {
        self.done.store(true, Ordering::Relaxed);
        Times(self.thread.join().expect("the pinging thread"))
    }
}

/// Tasks of the runtime that note how late they wake.
struct Ticks {
    done: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<Duration>>>,
}

impl Ticks {
    fn start() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let tasks = (0..SLEEPERS).map(|_| {
            let stop = Arc::clone(&done);
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let due = tokio::time::Instant::now() + TICK;
                    tokio::time::sleep_until(due).await;
                    times.push(due.elapsed());
                }
                times
            })
        });
        Self { done: Arc::clone(&done), tasks: tasks.collect() }
    }

    async fn stop(self) -> Times {
        self.done.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for task in self.tasks {
            times.extend(task.await.expect("a ticking task"));
        }
        Times(times)
    }
}

struct Times(Vec<Duration>);

impl Times {
    fn print(mut self, what: &str) {
        self.0.sort();
        let [median, p999, p9999] = [0.5, 0.999, 0.9999].map(|part| self.at(part));
        println!(
            "  {what}: {}, median {median:.2?}, p99.9 {p999:.2?}, p99.99 {p9999:.2?}, slowest {:.2?}",
            self.0.len(),
            self.at(1.0)
        );
    }

    /// Returns the time that this part of them, 0 to 1, does not exceed.
    fn at(&self, part: f64) -> Duration {
        self.0[(part * (self.0.len() - 1) as f64).ceil() as usize]
    }
}
