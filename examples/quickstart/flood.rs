//! The flood: real requests over loopback, 19 of 20 for users that do not exist.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::StatusCode;
use bloom_guard::BoxError;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;

const CONNECTIONS: u64 = 32;
const ONE_EXISTS_IN: u64 = 20;

#[derive(Default)]
pub(crate) struct Flood {
    /// How long each request took, shortest first.
    pub(crate) latencies: Vec<Duration>,
    /// Existing users answered 404.
    pub(crate) false_404s: u64,
}

/// Sends the requests, over one kept-alive connection for each worker.
pub(crate) async fn flood(
    address: SocketAddr,
    requests: u64,
    users: i64,
) -> Result<Flood, BoxError> {
    let mut workers = JoinSet::new();
    for worker in 0..CONNECTIONS {
        let numbers = (worker..requests).step_by(CONNECTIONS as usize);
        workers.spawn(work(address, numbers, users));
    }
    let mut all = Flood::default();
    while let Some(one) = workers.join_next().await {
        let one = one??;
        all.latencies.extend(one.latencies);
        all.false_404s += one.false_404s;
    }
    all.latencies.sort_unstable();
    Ok(all)
}

async fn work(
    address: SocketAddr,
    numbers: impl Iterator<Item = u64>,
    users: i64,
) -> Result<Flood, BoxError> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let mut flood = Flood::default();
    for number in numbers {
        let (id, exists) = target(number, users);
        let begun = Instant::now();
        let response = client.get(format!("http://{address}/users/{id}").parse()?).await?;
        let status = response.status();
        response.into_body().collect().await?;
        flood.latencies.push(begun.elapsed());
        match (exists, status) {
            (true, StatusCode::OK) | (false, StatusCode::NOT_FOUND) => {}
            (true, StatusCode::NOT_FOUND) => flood.false_404s += 1,
            _ => return Err(format!("a request for user {id} was answered {status}").into()),
        }
    }
    Ok(flood)
}

/// The id that a request asks for, and whether it exists. The same in every flood.
fn target(number: u64, users: i64) -> (i64, bool) {
    // The finalizer of MurmurHash3: consecutive numbers in, scattered ones out.
    let mut scattered = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    scattered = (scattered ^ (scattered >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let scattered = (scattered >> 24).cast_signed();
    // Numbers are dealt out to the workers in turn; this deals the existing ids out to all of them.
    let exists = (number / CONNECTIONS + number).is_multiple_of(ONE_EXISTS_IN);
    if exists { (1 + scattered % users, true) } else { (users + 1 + scattered, false) }
}
