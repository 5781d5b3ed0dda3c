//! Requests whose id is called invalid, and a sample of them that shows whether it is; and an extractor that finds no id at all.
//!
//! What cannot be an id is refused without asking anybody, so nothing else would notice that the handler
//! reads it all the same: a route beside the pattern, or a type that is not the handler's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use tokio::time::Instant;

use crate::decide::bucket::{Bucket, Throttle};
use crate::extract::{Extraction, IdExtractor};
use crate::id::InvalidId;
use crate::nulls::rules::is_found;
use crate::observe::metrics::{Metrics, Stats};

/// The least time between two alarms in the log.
const PAUSE: Duration = Duration::from_secs(1);
/// The warning comes when none of the first requests, as many as this, has an id.
const WITHOUT_ID: u32 = 1_000;
/// The weight of a request. One that looks like another guard's weighs 1.
const WHOLE: u32 = 100;
const ENOUGH: u32 = WITHOUT_ID * WHOLE;
/// So many looks at the counters of paths are a minute.
const MINUTE: u32 = 60;

/// Lets a sample of requests with invalid ids pass, and judges their answers.
pub(crate) struct InvalidCanary {
    sample: Bucket,
    alarms: Throttle,
}

impl InvalidCanary {
    pub(super) fn new(per_second: u32) -> Self {
        Self { sample: Bucket::empty(per_second), alarms: Throttle::new(PAUSE) }
    }

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

/// Warns once of a minute in which more than a hundredth of the requests have no id, and would have one if a layer within rewrote
/// their path.
#[derive(Default)]
pub(super) struct PathAlarm {
    looks: u32,
    before: Stats,
    has_told: bool,
}

impl PathAlarm {
    /// Looks at the counters: to be called once a second.
    pub(super) fn look(&mut self, metrics: &Metrics) {
        self.looks += 1;
        if self.has_told || !self.looks.is_multiple_of(MINUTE) {
            return;
        }
        let now = metrics.stats();
        let paths = now.unguarded_path - self.before.unguarded_path;
        let requests = now.requests - self.before.requests;
        self.before = now;
        if paths.saturating_mul(100) > requests {
            self.has_told = true;
            tracing::warn!(
                parent: None,
                filter = &*metrics.filter,
                paths,
                requests,
                "requests pass unguarded whose path would name an id without its final slash, with single slashes, or with %2F \
                 decoded: a layer inside of the guard that rewrites paths belongs outside of it"
            );
        }
    }
}

/// Warns once if requests have no id, unless one had an id before.
#[derive(Default)]
pub(crate) struct NoIdAlarm(AtomicU32);

impl NoIdAlarm {
    /// Notes what was found in a request. Only reads once an id was found or the warning written.
    pub(crate) fn note(
        &self,
        extraction: &Extraction,
        extractor: &dyn IdExtractor,
        parts: &Parts,
        filter: &str,
    ) {
        if self.0.load(Ordering::Relaxed) >= ENOUGH {
            return;
        }
        if !matches!(extraction, Extraction::Unguarded) {
            self.0.store(ENOUGH, Ordering::Relaxed);
            return;
        }
        let weight = if extractor.concerns(parts) { WHOLE } else { 1 };
        let before = self.0.fetch_add(weight, Ordering::Relaxed);
        if (ENOUGH - weight..ENOUGH).contains(&before) {
            tracing::warn!(
                filter,
                requests = WITHOUT_ID,
                "no request so far has had an id: does the extractor match the routes?"
            );
        }
    }
}
