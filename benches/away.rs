//! While Redis is away: what the guard costs requests for records that were found lately, over HTTP.
//!
//! `cargo bench --bench away`: runs the bare service and the guarded one in turn, and prints the medians of
//! requests a second and their ratio.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use bloom_guard::{BloomGuard, PathPattern};
use http::StatusCode;
use support::http::HttpServer;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

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

async fn compare() {
    // Nothing listens there.
    let guard =
        BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
            .redis("redis://127.0.0.1:1")
            .build()
            .expect("valid");
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
    Runtime::new().expect("a runtime").block_on(compare());
}
