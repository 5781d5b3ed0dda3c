//! Log lines about what may happen a million times, without a line for each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::decide::bucket::Bucket;

/// Counts events until it is time for a line again. The events behind a burst's last line are told of with the next burst; the
/// counters have them at once.
pub(crate) struct Throttle {
    lines: Bucket,
    untold: AtomicU64,
}

impl Throttle {
    /// Returns a throttle that lets a line pass after each such pause.
    pub(crate) fn new(pause: Duration) -> Self {
        Self { lines: Bucket::every(pause), untold: AtomicU64::new(0) }
    }

    /// Counts an event; returns how many there are to tell of, if it is time to. Of several that come at once, one tells of all.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        self.untold.fetch_add(1, Ordering::Relaxed);
        self.lines.take(now).ok()?;
        Some(self.untold.swap(0, Ordering::Relaxed)).filter(|events| *events > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_tells_of_all_events_since_the_one_before() {
        let throttle = Throttle::new(Duration::from_secs(60));
        let begun = Instant::now();
        assert_eq!(throttle.note(begun), Some(1));
        for second in 1..60 {
            assert_eq!(throttle.note(begun + Duration::from_secs(second)), None);
        }
        assert_eq!(throttle.note(begun + Duration::from_secs(60)), Some(60));
    }
}
