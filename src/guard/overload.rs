//! Telling of requests that were answered 503, without a line for each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// Counts until it is time for a line again.
#[derive(Debug)]
pub(super) struct Overload {
    origin: Instant,
    untold: AtomicU64,
    /// When the next line may be written, in microseconds since the origin.
    due: AtomicU64,
}

impl Overload {
    pub(super) fn new() -> Self {
        Self { origin: Instant::now(), untold: AtomicU64::new(0), due: AtomicU64::new(0) }
    }

    /// Counts a request; returns how many there are to tell of, if it is time to.
    pub(super) fn note(&self, now: Instant) -> Option<u64> {
        self.untold.fetch_add(1, Ordering::Relaxed);
        let due = self.due.load(Ordering::Relaxed);
        let now = micros(now.saturating_duration_since(self.origin));
        if now < due {
            return None;
        }
        // Of several that come at once, one tells of all.
        let next = now.saturating_add(micros(PAUSE));
        self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.untold.swap(0, Ordering::Relaxed))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
