//! A flood in the runtime's own time: a guarded handler that takes its time, and what reaches it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};
use http::{Request, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::{Layer, ServiceExt};

use super::model::{Strangers, Table, ready};

/// How long the handler takes, ms.
pub const LATENCY: u64 = 5;

/// A table, a guard in front of it, and how often the handler was called.
pub struct Site {
    pub table: Table,
    pub guard: BloomGuard,
    /// Whether the handler answers 500, whatever is asked.
    pub broken: AtomicBool,
    calls: AtomicU64,
}

impl Site {
    pub async fn new(table: &Table, guard: BloomGuard) -> Arc<Self> {
        ready(&guard).await;
        let (broken, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { table: table.clone(), guard, broken, calls })
    }

    /// How often the handler was called so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Sends a request for an id; the record is looked up by the id, whatever else the request says, but
    /// one with a query finds nothing.
    pub async fn ask(self: Arc<Self>, id: u64, request: Request<String>) -> StatusCode {
        let site = Arc::clone(&self);
        let handler = tower::service_fn(move |request: Request<String>| {
            site.calls.fetch_add(1, Ordering::Relaxed);
            let found = site.table.look_up(id) && request.uri().query().is_none();
            let broken = site.broken.load(Ordering::Relaxed);
            async move {
                sleep(Duration::from_millis(LATENCY)).await;
                let mut response = Response::new(String::new());
                if broken {
                    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                } else if !found {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                Ok::<_, Infallible>(response)
            }
        });
        self.guard.layer(handler).oneshot(request).await.unwrap().status()
    }

    /// So many ids that do not exist and that the filter lets pass.
    pub async fn false_positives(&self, count: usize) -> Vec<u64> {
        let mut known = Vec::with_capacity(count);
        for id in Strangers(3) {
            if self.guard.check(&id).await.unwrap() == Verdict::Present {
                known.push(id);
            }
            if known.len() == count {
                break;
            }
        }
        known
    }
}

/// Runs for so many milliseconds; in each, these tasks begin.
pub async fn every_ms<F>(ms: u64, mut begin: impl FnMut(u64) -> Vec<F>)
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut under_way = JoinSet::new();
    for now in 0..ms {
        begin(now).into_iter().for_each(|task| drop(under_way.spawn(task)));
        sleep(Duration::from_millis(1)).await;
        while let Some(ended) = under_way.try_join_next() {
            ended.expect("no task panics");
        }
    }
    under_way.join_all().await;
}

/// A plain request for an id.
pub fn get(id: u64) -> Request<String> {
    Request::get(format!("/users/{id}")).body(String::new()).unwrap()
}
