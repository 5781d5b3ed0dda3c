//! Ten million ids from memory, rebuilt into Redis, while another client pings it.
//!
//! `cargo bench -p bloom-guard-tests --bench rebuild` prints how long it took and the slowest PING; `REBUILD_IDS` sets
//! another number of ids. It needs `redis-server` on the PATH.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use support::redis_server::RedisServer;

fn main() {
    let ids = std::env::var("REBUILD_IDS").map_or(10_000_000, |ids| ids.parse().expect("a number"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(rebuild(ids));
}

async fn rebuild(ids: u64) {
    let redis = RedisServer::start();
    let guard =
        BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
            .capacity(ids, 0.001)
            .redis(&redis.url())
            .rebuild(Schedule::manual(), from_iter(move || 0..ids))
            .build()
            .expect("a configuration within bounds");
    let pings = Pings::start(&redis);
    let begun = Instant::now();
    guard.ready().await;
    let took = begun.elapsed();
    let (count, slowest, median) = pings.stop();
    let report = guard.rebuild_status().last.expect("a rebuild").expect("that went live");
    println!("{ids} ids into a filter of {} bytes, by the guard's first rebuild:", report.bytes);
    println!("  from build() to ready:  {:>8.2} s", took.as_secs_f64());
    println!("  the rebuild itself:     {:>8.2} s", report.took.as_secs_f64());
    println!("  of it the scan:         {:>8.2} s", report.scan_took.as_secs_f64());
    println!("  {count} pings meanwhile, median {median:.2?}, slowest {slowest:.2?}");
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
                std::thread::sleep(Duration::from_millis(1));
            }
            times
        });
        Self { done, thread }
    }

    /// Returns how many there were, the slowest and the median.
    fn stop(self) -> (usize, Duration, Duration) {
        self.done.store(true, Ordering::Relaxed);
        let mut times = self.thread.join().expect("the pinging thread");
        times.sort();
        (times.len(), times[times.len() - 1], times[times.len() / 2])
    }
}
