//! Requests whose id is called invalid, and a sample of them that shows whether it is.
//!
//! Nothing else would notice that the handler reads what the extractor calls invalid: a route beside the pattern, or another type.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::decide::bucket::{Bucket, Throttle};
use crate::id::InvalidId;
use crate::nulls::rules::is_found;
use crate::observe::metrics::Metrics;

/// The least time between two alarms in the log.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct InvalidCanary {
    sample: Bucket,
    alarms: Throttle,
}

impl InvalidCanary {
    pub(super) fn new(per_second: u32) -> Self {
        Self { sample: Bucket::empty(per_second), alarms: Throttle::new(PAUSE) }
    }

    pub(crate) fn takes(&self) -> bool {
        self.sample.take(Instant::now())
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
