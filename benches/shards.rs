//! What shards cost on one Redis: the CPU of a check, of Redis and of the process, and what a guard costs that nobody asks.
//!
//! `cargo bench -p bloom-guard-tests --bench shards` prints both for filters of the same ids in 1, 16, 64 and 256 shards,
//! asked in turns: for all ids without a copy, and for absent ones with one. It needs `redis-server` on the PATH.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, PathPattern, Schedule, SecretKey, from_iter};
use support::redis_server::RedisServer;
use tokio::time::sleep;

const SHARDS: [u32; 4] = [1, 16, 64, 256];
const IDS: u64 = 2_000_000;
const IN_FLIGHT: [u64; 2] = [512, 1_024];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
const STATES: u32 = 100;
/// How long copies are waited for.
const COPIED: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(20);

/// CPU that was used so far, s.
#[derive(Clone, Copy)]
struct Cpu {
    redis: f64,
    process: f64,
}

impl Cpu {
    fn now(redis: &RedisServer) -> Self {
        let info: String = redis.run(&["INFO", "cpu"]);
        let used = |field: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(field));
            line.and_then(|value| value.parse().ok()).expect("redis says so")
        };
        let stat = std::fs::read_to_string("/proc/self/stat").expect("linux");
        let fields: Vec<&str> =
            stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks = |field: usize| fields[field].parse::<f64>().expect("a number");
        let redis = used("used_cpu_sys:") + used("used_cpu_user:");
        // User and system time, in hundredths of a second.
        Self { redis, process: (ticks(11) + ticks(12)) / 100.0 }
    }
}

fn guard(redis: &RedisServer, shards: u32, copies: bool) -> BloomGuard {
    let pattern = PathPattern::<u64>::new("/users/{id}").expect("valid");
    let builder = BloomGuard::builder(format!("users-{shards}-{copies}"), pattern);
    let builder = if copies { builder } else { builder.copy_limit(0) };
    builder
        .redis(&redis.url())
        .capacity(IDS, 0.01)
        .secret_key(SecretKey::new([7; 16]))
        .shards(shards)
        .settle(Duration::ZERO)
        .check_deadline(Duration::from_secs(1))
        .audits_per_second(0)
        .rebuild(Schedule::manual(), from_iter(|| 0..IDS))
        .build()
        .expect("a configuration within bounds")
}

/// Checks of one guard, by so many tasks at once: how many in a second, and the CPU of each, µs.
async fn round(redis: &RedisServer, guard: &BloomGuard, in_flight: u64, from: u64) -> [f64; 3] {
    let (checks, begun, before) = (Arc::new(AtomicU64::new(0)), Instant::now(), Cpu::now(redis));
    let tasks: Vec<_> = (0..in_flight)
        .map(|task| {
            let (guard, checks) = (guard.clone(), Arc::clone(&checks));
            tokio::spawn(async move {
                let mut id = task.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                while begun.elapsed() < ROUND {
                    id = id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // From 0 on, one half exists.
                    guard.check(&(from + (id >> 20) % (2 * IDS))).await.expect("an id");
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let (after, checks) = (Cpu::now(redis), checks.load(Ordering::Relaxed) as f64);
    let each = |cpu: f64| cpu * 1e6 / checks;
    let took = begun.elapsed().as_secs_f64();
    [checks / took, each(after.redis - before.redis), each(after.process - before.process)]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn checks(redis: &RedisServer, guards: &[BloomGuard], from: u64) {
    for in_flight in IN_FLIGHT {
        let mut figures = vec![Vec::new(); guards.len()];
        for _ in 0..ROUNDS {
            for (guard, figures) in guards.iter().zip(&mut figures) {
                figures.push(round(redis, guard, in_flight, from).await);
            }
        }
        println!(
            "| shards, {in_flight} in flight | checks/s | of Redis µs | of the process µs | ratio of Redis | of the process |"
        );
        println!("|---|---:|---:|---:|---:|---:|");
        let of =
            |figures: &[[f64; 3]], n: usize| median(figures.iter().map(|round| round[n]).collect());
        let (redis, process) = (of(&figures[0], 1), of(&figures[0], 2));
        for (shards, figures) in SHARDS.iter().zip(&figures) {
            let [rate, by_redis, by_process] = [0, 1, 2].map(|n| of(figures, n));
            println!(
                "| {shards} | {rate:.0} | {by_redis:.2} | {by_process:.2} | {:.2} | {:.2} |",
                redis / by_redis,
                by_process / process
            );
        }
    }
}

/// What one guard that nobody asks costs Redis.
async fn idle() {
    println!("| shards, nobody asks | connections | CPU of Redis, ms a second | `state()`, µs |");
    println!("|---|---:|---:|---:|");
    for shards in SHARDS {
        let redis = RedisServer::start();
        let guard = guard(&redis, shards, false);
        guard.ready().await;
        sleep(Duration::from_secs(5)).await;
        let before = Cpu::now(&redis);
        sleep(IDLE).await;
        let cpu = (Cpu::now(&redis).redis - before.redis) * 1000.0 / IDLE.as_secs_f64();
        let clients: String = redis.run(&["CLIENT", "LIST"]);
        let begun = Instant::now();
        for _ in 0..STATES {
            std::hint::black_box(guard.state());
        }
        let state = begun.elapsed().as_secs_f64() * 1e6 / f64::from(STATES);
        // One is this program's.
        println!("| {shards} | {} | {cpu:.2} | {state:.0} |", clients.lines().count() - 1);
    }
}

#[tokio::main]
async fn main() {
    let redis = RedisServer::start();
    for copies in [false, true] {
        let mut guards = Vec::new();
        for shards in SHARDS {
            let guard = guard(&redis, shards, copies);
            let begun = Instant::now();
            guard.ready().await;
            println!(
                "{IDS} ids in {shards} shards: live after {:.1} s",
                begun.elapsed().as_secs_f64()
            );
            guards.push(guard);
        }
        if copies {
            println!("With a copy of each filter, absent ids:");
            sleep(COPIED).await;
            assert!(guards.iter().all(|guard| guard.state().copy.is_some()), "all are copied");
        }
        checks(&redis, &guards, if copies { IDS } else { 0 }).await;
    }
    idle().await;
}
