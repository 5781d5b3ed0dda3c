//! What the tests share: a real redis-server, proxies, patience.

#![expect(
    missing_debug_implementations,
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "the tests' own, where a panic is a failed test"
)]

pub mod flood;
pub mod http;
pub mod log;
pub mod model;
pub mod proxy;
pub mod redis_server;
pub mod route;
pub mod sentinel;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Polls a condition until it holds; panics with the last thing seen when it does not in time.
pub async fn eventually<T, F>(what: &str, within: Duration, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let begun = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if begun.elapsed() > within => {
                panic!("{what}: not within {within:?}: {seen}")
            }
            Err(_) => sleep(Duration::from_millis(2)).await,
        }
    }
}

/// Runs a check again and again for a while.
pub async fn throughout<F: Future<Output = ()>>(time: Duration, mut check: impl FnMut() -> F) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        check().await;
        sleep(Duration::from_millis(2)).await;
    }
}
