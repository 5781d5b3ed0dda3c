//! Log lines about what may happen a million times, without a line for each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Counts events until it is time for a line again. The events behind a burst's last line are told of with the next burst; the
/// counters have them at once.
pub(crate) struct Throttle {
    origin: Instant,
    pause: Duration,
    untold: AtomicU64,
    /// When the next line may be written, in microseconds since the origin.
    due: AtomicU64,
}

impl Throttle {
    /// Returns a throttle that lets a line pass after each such pause.
    pub(crate) fn new(pause: Duration) -> Self {
        let origin = Instant::now();
        Self { origin, pause, untold: AtomicU64::new(0), due: AtomicU64::new(0) }
    }

    /// Counts an event; returns how many there are to tell of, if it is time to.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        self.untold.fetch_add(1, Ordering::Relaxed);
        let due = self.due.load(Ordering::Relaxed);
        let now = micros(now.saturating_duration_since(self.origin));
        if now < due {
            return None;
        }
        // Of several that come at once, one tells of all.
        let next = now.saturating_add(micros(self.pause));
        self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.untold.swap(0, Ordering::Relaxed)).filter(|events| *events > 0)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
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
