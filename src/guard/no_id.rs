//! Notices an extractor that finds no id in any request.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::extract::Extraction;

/// When none of the first requests has an id, there is a warning after this number.
const WITHOUT_ID: u32 = 1_000;

/// Warns once, unless there was an id in a request before.
#[derive(Default)]
pub(crate) struct NoIdAlarm(AtomicU32);

impl NoIdAlarm {
    /// Notes what was found in a request. Once the warning has no use any more, this only reads.
    pub(crate) fn note(&self, extraction: &Extraction, filter: &str) {
        if self.0.load(Ordering::Relaxed) >= WITHOUT_ID {
            return;
        }
        if !matches!(extraction, Extraction::Unguarded) {
            self.0.store(WITHOUT_ID, Ordering::Relaxed);
        } else if self.0.fetch_add(1, Ordering::Relaxed) + 1 == WITHOUT_ID {
            tracing::warn!(
                filter,
                requests = WITHOUT_ID,
                "no request so far has had an id: does the extractor match the routes?"
            );
        }
    }
}
