//! Requests whose id is called invalid, and a sample of them that shows whether it is.
//!
//! What cannot be an id is refused without asking anybody, so nothing else would notice that the handler
//! reads it all the same: a route beside the pattern, or a type that is not the handler's.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::decide::bucket::Bucket;
use crate::id::InvalidId;
use crate::nulls::rules::is_found;
use crate::observe::metrics::Metrics;
use crate::observe::throttle::Throttle;

/// The least time between two alarms in the log; all are counted.
const PAUSE: Duration = Duration::from_secs(1);

/// How many refusals of invalid ids pass as a sample, and what is said of their answers.
pub(crate) struct InvalidCanary {
    sample: Bucket,
    alarms: Throttle,
}

impl InvalidCanary {
    /// Lets `per_second` of them through.
    pub(super) fn new(filter: &Arc<str>, per_second: u32) -> Self {
        let alarms = Throttle::new(filter, PAUSE, tell_of_more);
        Self { sample: Bucket::empty(per_second), alarms }
    }

    /// Writes the lines that end bursts, for as long as it is polled.
    pub(super) async fn tell_rests(&self) {
        self.alarms.tell_rests().await;
    }

    /// Whether to let this refusal through.
    pub(crate) fn takes(&self) -> bool {
        self.sample.take(Instant::now()).is_ok()
    }

    /// Looks at the answer to a request that was let through although its id is invalid.
    pub(crate) fn judge(&self, metrics: &Metrics, reason: InvalidId, status: StatusCode) {
        if !is_found(status) {
            return;
        }
        metrics.invalid_answered.add(1);
        if let Some(requests) = self.alarms.note(Instant::now()) {
            tracing::error!(
                parent: None,
                filter = &*metrics.filter,
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
