//! Requests whose id is called invalid, and a look at whether it is.
//!
//! What cannot be an id is refused without asking anybody, so nothing else would notice that the handler
//! reads it all the same: a route beside the pattern, or a type that is not the handler's.

use std::sync::Arc;

use http::{Response, StatusCode};
use tokio::time::Instant;

use crate::decide::bucket::Bucket;
use crate::id::InvalidId;
use crate::nulls::rules::is_found;
use crate::observe::metrics::Metrics;

/// Alarms written to the log in a second; all are counted.
const LOGGED: u32 = 1;

/// How many refusals of invalid ids are let through for a look, and what is said of them.
#[derive(Debug)]
pub(crate) struct Oversight {
    metrics: Arc<Metrics>,
    looks: Bucket,
    logged: Bucket,
}

impl Oversight {
    /// Lets so many through in a second.
    pub(crate) fn new(metrics: Arc<Metrics>, looks: u32) -> Self {
        Self { metrics, looks: Bucket::sampling(looks), logged: Bucket::new(LOGGED, LOGGED) }
    }

    /// Whether to let this refusal through.
    pub(crate) fn looks(&self) -> bool {
        self.looks.take(Instant::now()).is_ok()
    }

    /// Judges the answer to a request that was let through.
    fn judge(&self, reason: InvalidId, status: StatusCode) {
        if !is_found(status) {
            return;
        }
        self.metrics.invalid_answered.add(1);
        if self.logged.take(Instant::now()).is_ok() {
            tracing::error!(
                filter = &*self.metrics.filter,
                %reason,
                %status,
                "a request whose id is called invalid was answered as if there were a record: a route that \
                 the extractor should except, or another type than the handler's"
            );
        }
    }
}

/// A request that was let through although its id is invalid.
pub(crate) struct Look {
    oversight: Arc<Oversight>,
    reason: InvalidId,
}

impl Look {
    pub(crate) fn new(oversight: &Arc<Oversight>, reason: InvalidId) -> Self {
        Self { oversight: Arc::clone(oversight), reason }
    }

    pub(crate) fn conclude<B>(self, response: &Response<B>) {
        self.oversight.judge(self.reason, response.status());
    }
}
