//! When a rebuild is due.

#[cfg(feature = "cron")]
mod cron;

use std::ops::RangeInclusive;
#[cfg(feature = "cron")]
use std::sync::Arc;
use std::time::Duration;

use crate::error::SettingError;
use crate::filter::{Generation, bounded};

/// When the filter is rebuilt.
///
/// The live filter's age by Redis's clock decides: any number of instances rebuild once a period, and a restart does not begin the
/// period anew. A missing or untrusted filter is rebuilt at once, whatever the schedule.
#[derive(Debug, Clone)]
pub struct Schedule(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Every(Duration),
    Manual,
    #[cfg(feature = "cron")]
    Cron(Arc<cron::Times>),
}

impl Schedule {
    /// The shortest period.
    pub const MIN_PERIOD: Duration = Duration::from_secs(1);
    /// The longest period.
    pub const MAX_PERIOD: Duration = Duration::from_secs(31 * 24 * 60 * 60);

    /// Rebuilds once in a period, from [`MIN_PERIOD`](Self::MIN_PERIOD) to
    /// [`MAX_PERIOD`](Self::MAX_PERIOD). Each generation lengthens it by up to a tenth, so that several
    /// filters do not rebuild in step.
    #[must_use]
    pub const fn every(period: Duration) -> Self {
        Self(Kind::Every(period))
    }

    pub(crate) fn judge(&self) -> Result<(), SettingError> {
        const PERIOD: RangeInclusive<Duration> = Schedule::MIN_PERIOD..=Schedule::MAX_PERIOD;
        match &self.0 {
            Kind::Manual => Ok(()),
            Kind::Every(period) => bounded("rebuild period", *period, &PERIOD),
            #[cfg(feature = "cron")]
            Kind::Cron(times) => times.as_ref().as_ref().map(drop).map_err(Clone::clone),
        }
    }

    /// Rebuilds only when the application says so, or when there is no filter to trust.
    #[must_use]
    pub const fn manual() -> Self {
        Self(Kind::Manual)
    }

    /// Returns the longest time between two rebuilds, and a quarter more, if the schedule bounds it.
    pub(crate) fn longest_gap(&self) -> Option<Duration> {
        let gap = match &self.0 {
            Kind::Manual => return None,
            Kind::Every(period) => *period,
            #[cfg(feature = "cron")]
            Kind::Cron(times) => cron::longest_gap(times)?,
        };
        Some((gap + gap / 4).clamp(Self::MIN_PERIOD, Self::MAX_PERIOD))
    }

    /// Whether a generation, known to this process for `known`, is due for replacement at a time in µs since the Unix epoch.
    pub(super) fn is_due(&self, live: Generation, known: Duration, now_us: i64) -> bool {
        let built_us = built(live, known, now_us);
        match &self.0 {
            Kind::Manual => false,
            Kind::Every(period) => {
                let period = micros(*period);
                let spread = (live.get().cast_unsigned().wrapping_mul(SPREAD) >> 54).cast_signed();
                let period = period.saturating_add((period / 10240).saturating_mul(spread));
                now_us.saturating_sub(built_us) >= period
            }
            #[cfg(feature = "cron")]
            Kind::Cron(times) => cron::is_one_between(times, built_us, now_us),
        }
    }

    /// Whether a filter that holds more ids than it is sized for may be replaced before it is due: after a tenth of the time between
    /// two rebuilds, and never where the application rebuilds by hand.
    pub(super) fn may_hasten(&self, live: Generation, known: Duration, now_us: i64) -> bool {
        let age = now_us.saturating_sub(built(live, known, now_us));
        self.longest_gap().is_some_and(|gap| age >= micros(gap / 10))
    }
}

/// Returns when a generation was built, µs; if the clock was set back since, when this process met it.
fn built(live: Generation, known: Duration, now_us: i64) -> i64 {
    if live.get() > now_us.saturating_add(SKEW_US) {
        return now_us.saturating_sub(micros(known));
    }
    live.get()
}

/// How far clocks may differ. A generation from further in the future shows that the clock was set back.
const SKEW_US: i64 = 5 * 60 * 1_000_000;
/// 2^64 over the golden ratio: spreads consecutive numbers evenly (Knuth, TAOCP 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const NOON: i64 = 1_767_268_800 * SECOND; // 2026-01-01T12:00:00Z

    fn due(schedule: &Schedule, built: i64, now: i64) -> bool {
        schedule.is_due(Generation::new(built).unwrap(), Duration::ZERO, now)
    }

    #[test]
    fn a_period_is_lengthened_by_a_tenth_at_most() {
        let hourly = Schedule::every(Duration::from_secs(3600));
        let mut seen = std::collections::BTreeSet::new();
        for built in (0..100).map(|i| NOON + i * 7 * SECOND) {
            assert!(!due(&hourly, built, built + 3599 * SECOND));
            assert!(due(&hourly, built, built + 3960 * SECOND));
            let first = (3600..=3960).find(|s| due(&hourly, built, built + s * SECOND));
            seen.insert(first);
        }
        assert!(seen.len() > 20, "generations are spread: {seen:?}");
    }

    #[test]
    fn a_clock_set_back_does_not_stop_rebuilds() {
        let hourly = Schedule::every(Duration::from_secs(3600));
        for ahead in [600, 3600, 23 * 3600, 48 * 3600] {
            let future = Generation::new(NOON + ahead * SECOND).unwrap();
            let due = |known| hourly.is_due(future, Duration::from_secs(known), NOON);
            assert!(!due(3599), "{ahead} s ahead, and no storm");
            assert!(due(3960), "{ahead} s ahead");
        }
    }

    #[test]
    fn clocks_that_differ_a_little_do_not_hasten_rebuilds() {
        let known = Duration::from_secs(3600);
        let schedule = Schedule::every(Duration::from_secs(600));
        for ahead in [1, 60, 300] {
            let built = Generation::new(NOON + ahead * SECOND).unwrap();
            assert!(!schedule.is_due(built, known, NOON), "{ahead} s");
        }
    }

    #[test]
    fn a_bad_period_is_named() {
        let error = Schedule::every(Duration::ZERO).judge().unwrap_err().to_string();
        assert_eq!(error, "rebuild period: 0ns is not between 1s and 2678400s");
    }
}
