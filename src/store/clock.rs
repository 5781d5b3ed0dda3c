//! A store's clock, by which it dates what it is asked: Redis's, or this machine's as it was when the store was made.

use std::time::Duration;

use tokio::time::Instant;

/// By how much a store's clock and this machine's may part between two readings.
#[cfg(feature = "redis")]
pub(crate) const CLOCKS_PART: Duration = Duration::from_secs(2);
/// The same as a part of the time between the readings. A machine's clock drifts by less than a tenth of this.
#[cfg(feature = "redis")]
const DRIFTS: u32 = 1_000;

/// A store's clock, read at a local instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    read: Instant,
    us: i64,
}

impl Clock {
    pub(crate) fn now(us: i64) -> Self {
        Self { read: Instant::now(), us }
    }

    /// Whether a later reading shows as much time to have passed as this machine's clock does.
    #[cfg(feature = "redis")]
    pub(crate) fn agrees(self, later: Self) -> bool {
        let may_part = CLOCKS_PART + later.read.saturating_duration_since(self.read) / DRIFTS;
        u128::from(self.at(later.read).abs_diff(later.us)) <= may_part.as_micros()
    }

    pub(crate) fn age(&self) -> Duration {
        self.read.elapsed()
    }

    /// Returns the store's clock at another local instant, µs since the Unix epoch.
    pub(crate) fn at(&self, at: Instant) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.read) {
            Some(later) => self.us.saturating_add(micros(later)),
            None => self.us.saturating_sub(micros(self.read - at)),
        }
    }
}

#[cfg(test)]
#[cfg(feature = "redis")]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_is_noticed_also_after_a_long_outage() {
        const HOURS: u64 = 10 * 3_600;
        for (seconds, by_ms, agrees) in [
            (1, 1_900, true),
            (1, 2_100, false),
            (1, -2_100, false),
            (HOURS, 30_000, true),
            (HOURS, 60_000, false),
            (HOURS, -60_000, false),
        ] {
            let before = Clock::now(0);
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let later = Clock::now((seconds * 1_000_000).cast_signed() + by_ms * 1_000);
            assert_eq!(before.agrees(later), agrees, "{by_ms} ms in {seconds} s");
        }
    }
}
