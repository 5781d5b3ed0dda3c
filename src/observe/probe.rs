//! Checks an id of the guard's own, as a request would have its id checked.

use tokio::time::Instant;

use super::metrics::Metrics;
use crate::id::Id;
use crate::store::{Store, look_up};

/// Asks, and notes whether checks succeed. Whether there is such an id is no matter.
pub(crate) async fn probe(store: &dyn Store, metrics: &Metrics) {
    if let Ok(id) = Id::display("bloom-guard") {
        let verdict = look_up(store, &id).await.verdict;
        metrics.probe(verdict, Instant::now());
    }
}
