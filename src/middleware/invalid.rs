//! Requests whose id is called invalid, and a sample of them that shows whether it is.
//!
//! What cannot be an id is refused without asking anybody, so nothing else would notice that the handler
//! reads it all the same: a route beside the pattern, or a type that is not the handler's.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use tokio::time::Instant;

use crate::decide::bucket::Bucket;
use crate::id::InvalidId;
use crate::nulls::rules::is_found;
use crate::observe::metrics::Metrics;
use crate::observe::throttle::Throttle;

/// The least time between two alarms in the log; all are counted.
const PAUSE: Duration = Duration::from_secs(1);

/// How many refusals of invalid ids pass as a sample, and what is said of their answers.
pub(super) struct InvalidCanary {
    metrics: Arc<Metrics>,
    sample: Bucket,
    alarms: Throttle,
}

impl InvalidCanary {
    /// Lets `per_second` of them through.
    pub(super) fn new(metrics: &Arc<Metrics>, per_second: u32) -> Self {
        let alarms = Throttle::new(&metrics.filter, PAUSE, tell_of_more);
        Self { metrics: Arc::clone(metrics), sample: Bucket::empty(per_second), alarms }
    }

    /// Writes the lines that end bursts, for as long as it is polled.
    pub(super) async fn tell_rests(self: Arc<Self>) {
        self.alarms.tell_rests().await;
    }

    /// Whether to let this refusal through.
    pub(super) fn takes(&self) -> bool {
        self.sample.take(Instant::now()).is_ok()
    }

    fn judge(&self, reason: InvalidId, status: StatusCode) {
        if !is_found(status) {
            return;
        }
        self.metrics.invalid_answered.add(1);
        if let Some(requests) = self.alarms.note(Instant::now()) {
            tracing::error!(
                parent: None,
                filter = &*self.metrics.filter,
                %reason,
                %status,
                requests,
                "a request whose id is called invalid was answered as if there were a record: a route that \
                 the extractor should except, or another type than the handler's"
            );
        }
    }
}

fn tell_of_more(filter: &str, requests: u64) {
    tracing::error!(
        parent: None,
        filter,
        requests,
        "more requests whose id is called invalid were answered"
    );
}

/// A request that was let through although its id is invalid.
pub(super) struct InvalidSample {
    canary: Arc<InvalidCanary>,
    reason: InvalidId,
}

impl InvalidSample {
    pub(super) fn new(canary: &Arc<InvalidCanary>, reason: InvalidId) -> Self {
        Self { canary: Arc::clone(canary), reason }
    }

    pub(super) fn conclude<B>(&self, response: &Response<B>) {
        self.canary.judge(self.reason, response.status());
    }
}
