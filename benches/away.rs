//! While Redis is away: what the guard costs requests for records that were found lately, over HTTP; and what
//! creates, whose inserts fail, cost the reads that share their pool of connections to the database.
//!
//! `cargo bench -p bloom-guard-tests --bench away`: runs both sides of each in turn, prints the medians and their
//! ratio.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use bloom_guard::{BloomGuard, PathPattern};
use http::StatusCode;
use support::http::HttpServer;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

const CONNECTIONS: u64 = 32;
const IDS: u64 = 1_000;
const RUN: Duration = Duration::from_millis(1_500);
const RUNS: usize = 7;

fn app() -> Router {
    Router::new().route("/users/{id}", get(async || "a user"))
}

/// Requests a second for ids that exist.
async fn rate(server: &HttpServer) -> f64 {
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for connection in 0..CONNECTIONS {
        let mut client = server.connect().await;
        clients.spawn(async move {
            let mut requests = 0_u64;
            while begun.elapsed() < RUN {
                let id = (requests * CONNECTIONS + connection) % IDS;
                let answer = client.get(&format!("/users/{id}")).await;
                assert_eq!(answer.status(), StatusCode::OK, "it was found lately");
                requests += 1;
            }
            requests
        });
    }
    let requests: u64 = clients.join_all().await.into_iter().sum();
    requests as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// The connections of a pool, how long a query takes, and how many there are.
const POOL: usize = 20;
const QUERY: Duration = Duration::from_millis(5);
const READS: u32 = 2_000;
const READS_PER_SECOND: u32 = 500;
const CREATES_PER_SECOND: u32 = 25;

/// The 99th percentile of the time that reads take, with creates beside them or without.
async fn reads(guard: Option<&BloomGuard>) -> Duration {
    let pool = Arc::new(Semaphore::new(POOL));
    let (mut creates, mut reads) = (JoinSet::new(), JoinSet::new());
    let mut ticks = interval(Duration::from_secs(1) / READS_PER_SECOND);
    for number in 0..READS {
        ticks.tick().await;
        let pool = Arc::clone(&pool);
        if let Some(guard) = guard
            && number % (READS_PER_SECOND / CREATES_PER_SECOND) == 0
        {
            let (guard, pool) = (guard.clone(), Arc::clone(&pool));
            creates.spawn(async move {
                let _connection = pool.acquire().await.expect("open");
                sleep(QUERY).await;
                guard.insert(&u64::from(number)).await.expect_err("redis is away");
            });
        }
        reads.spawn(async move {
            let begun = Instant::now();
            let _connection = pool.acquire().await.expect("open");
            sleep(QUERY).await;
            begun.elapsed()
        });
    }
    let mut took = reads.join_all().await;
    took.sort();
    took[took.len() * 99 / 100]
}

async fn compare_reads() {
    let guard = away();
    guard.insert(&0).await.expect_err("redis is away");
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        alone.push(reads(None).await.as_secs_f64() * 1e3);
        beside.push(reads(Some(&guard)).await.as_secs_f64() * 1e3);
    }
    let ratios = alone.iter().zip(&beside).map(|(alone, beside)| beside / alone).collect();
    println!("reads' p99 without creates:      {:.1} ms", median(alone));
    println!("reads' p99, {CREATES_PER_SECOND} creates a second: {:.1} ms", median(beside));
    println!("with / without, run by run: {:.2}", median(ratios));
}

/// A guard whose Redis is not there.
fn away() -> BloomGuard {
    // Nothing listens there.
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
        .redis("redis://127.0.0.1:1")
        .build()
        .expect("valid")
}

async fn compare() {
    let guard = away();
    let bare = HttpServer::start(app()).await;
    let guarded = HttpServer::start(app().layer(guard.clone())).await;
    // By the lane, until all have been found.
    let mut client = guarded.connect().await;
    for id in 0..IDS {
        while client.get(&format!("/users/{id}")).await.status() != StatusCode::OK {
            sleep(Duration::from_millis(10)).await;
        }
    }
    let (mut bares, mut guardeds) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        bares.push(rate(&bare).await);
        guardeds.push(rate(&guarded).await);
    }
    assert_eq!(guard.stats().present, 0, "redis was never there");
    let ratios = bares.iter().zip(&guardeds).map(|(bare, guarded)| guarded / bare).collect();
    println!("bare service:             {:.0} requests/s", median(bares));
    println!("guarded, redis away:      {:.0} requests/s", median(guardeds));
    println!("guarded / bare, run by run: {:.3}", median(ratios));
}

fn main() {
    Runtime::new().expect("a runtime").block_on(async {
        compare().await;
        compare_reads().await;
    });
}
