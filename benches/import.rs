//! An import by `COPY` in one transaction, alone and with the guard told while it copies; the commit waits for both.
//!
//! `cargo bench -p bloom-guard-tests --bench import` runs the ways in turn and prints the medians, their ratios to
//! `COPY` alone, and what the guard's part took of Redis. It needs PostgreSQL and `redis-server`.

#![expect(unreachable_pub, reason = "a part of what is compiled in is used")]

use std::io::Cursor;
use std::pin::pin;
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use futures_util::SinkExt;
use support::redis_server::RedisServer;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls, Transaction};

use crate::cluster::Cluster;

#[path = "../tests/postgres/cluster.rs"]
mod cluster;

const ROWS: u64 = 500_000;
/// The filter knows these already.
const BEFORE: u64 = 100_000;
/// Rows sent to PostgreSQL at a time.
const CHUNK: usize = 10_000;
const ROUNDS: usize = 5;
const SCHEMA: &str = "
    DROP TABLE IF EXISTS users;
    CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, created timestamptz NOT NULL DEFAULT now())";

/// How the guard is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    /// By one call for all ids.
    AtOnce,
    /// By a call for each chunk of rows, one after the other.
    Chunks,
}

const WAYS: [Way; 3] = [Way::Alone, Way::AtOnce, Way::Chunks];

/// What one import took.
struct Took {
    time: Duration,
    redis: Duration,
    record: u64,
}

fn main() {
    let cluster = Cluster::shared();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let settings = format!("host={} user=postgres dbname=postgres", cluster.socket().display());
        let mut client = connect(&settings).await;
        for capacity in [1_000_000, 10_000_000] {
            println!("{ROWS} rows, a filter for {capacity} ids:");
            let mut rounds: [Vec<Took>; WAYS.len()] = Default::default();
            for _ in 0..ROUNDS {
                for (way, took) in WAYS.into_iter().zip(&mut rounds) {
                    took.push(round(&mut client, way, capacity).await);
                }
            }
            print(&rounds);
        }
    });
}

/// Connects as soon as PostgreSQL has started.
async fn connect(settings: &str) -> Client {
    let begun = Instant::now();
    loop {
        match tokio_postgres::connect(settings, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return client;
            }
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

async fn round(client: &mut Client, way: Way, capacity: u64) -> Took {
    client.batch_execute(SCHEMA).await.expect("a table");
    let redis = RedisServer::start();
    let users = PathPattern::<u64>::new("/users/{id}").expect("valid");
    let guard = BloomGuard::builder("users", users)
        .redis(&redis.url())
        .capacity(capacity, 0.001)
        .rebuild(Schedule::manual(), from_iter(|| 0..BEFORE))
        .build()
        .expect("within bounds");
    guard.ready().await;
    let before = cpu(&redis);
    let begun = Instant::now();
    let transaction = client.transaction().await.expect("a transaction");
    match way {
        Way::Alone => copy(&transaction, None).await,
        Way::AtOnce => {
            let guard = guard.clone();
            let telling =
                tokio::spawn(async move { guard.insert_many(BEFORE..BEFORE + ROWS).await });
            copy(&transaction, None).await;
            telling.await.expect("no panic").expect("acknowledged");
        }
        Way::Chunks => {
            let (tell, mut told) = mpsc::channel::<Vec<u64>>(4);
            let telling = tokio::spawn({
                let guard = guard.clone();
                async move {
                    while let Some(ids) = told.recv().await {
                        guard.insert_many(ids).await.expect("acknowledged");
                    }
                }
            });
            copy(&transaction, Some(tell)).await;
            telling.await.expect("no panic");
        }
    }
    transaction.commit().await.expect("committed");
    Took { time: begun.elapsed(), redis: cpu(&redis) - before, record: record(&redis) }
}

/// Copies all rows, and sends each chunk's ids.
async fn copy(transaction: &Transaction<'_>, tell: Option<mpsc::Sender<Vec<u64>>>) {
    let copy = transaction.copy_in("COPY users (id, name) FROM STDIN").await.expect("a table");
    let mut copy = pin!(copy);
    let ids: Vec<u64> = (BEFORE..BEFORE + ROWS).collect();
    for some in ids.chunks(CHUNK) {
        if let Some(tell) = &tell {
            tell.send(some.to_vec()).await.expect("is told");
        }
        let lines: String = some.iter().map(|id| format!("{id}\tuser {id}\n")).collect();
        copy.send(Cursor::new(lines)).await.expect("copied");
    }
    drop(tell);
    copy.finish().await.expect("copied");
}

/// What Redis has taken of a core so far.
fn cpu(redis: &RedisServer) -> Duration {
    let info = redis.run::<String>(&["INFO", "cpu"]);
    let seconds = ["used_cpu_user:", "used_cpu_sys:"].map(|field| {
        let line = info.lines().find_map(|line| line.strip_prefix(field)).expect("is told");
        line.trim().parse::<f64>().expect("a number")
    });
    Duration::from_secs_f64(seconds.iter().sum())
}

/// The bytes of the record of recent inserts.
fn record(redis: &RedisServer) -> u64 {
    let size = ["MEMORY", "USAGE", "bg:{users}:recent", "SAMPLES", "0"];
    redis.run::<Option<u64>>(&size).unwrap_or_default()
}

fn print(rounds: &[Vec<Took>; WAYS.len()]) {
    let alone = median(&rounds[0], |took| took.time.as_secs_f64());
    for (way, took) in WAYS.into_iter().zip(rounds) {
        let time = median(took, |took| took.time.as_secs_f64());
        let redis = median(took, |took| took.redis.as_secs_f64());
        let record = median(took, |took| took.record as f64 / 1e6);
        println!(
            "  {:<8} {time:.2} s ({:.2}), Redis's core {redis:.2} s, record {record:.1} MB",
            format!("{way:?}"),
            time / alone
        );
    }
}

fn median(took: &[Took], figure: impl Fn(&Took) -> f64) -> f64 {
    let mut figures: Vec<f64> = took.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
