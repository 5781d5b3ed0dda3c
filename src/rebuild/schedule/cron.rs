//! Schedules by cron expressions, with the crate feature `cron`.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::errors::CronError;

use super::{Kind, Schedule};
use crate::error::SettingError;

/// How many occurrences of a cron expression are looked at for the longest gap: a week of hourly
/// ones, half a year of daily ones.
const CRON_TIMES: usize = 170;
/// Ten years in days: a leap day comes sooner, even over a century without one.
const CRON_HORIZON: i64 = 3_653;

impl Schedule {
    /// Rebuilds at the times of a cron expression of five fields (six with seconds first, seven
    /// with years last), in UTC: a time-zone prefix is an error. Days of the week are `MON` or 1, and 0 and 7 Sunday; `@daily` and
    /// its like work. It has to name a time within the next ten years. The time between two rebuilds, for which a removal lasts, is taken
    /// to be the longest between the next 170.
    ///
    /// Needs the crate feature `cron`.
    #[must_use]
    pub fn cron(expression: &str) -> Self {
        let times = read(expression).map_err(|reason| SettingError::Invalid {
            setting: "rebuild",
            reason: format!("cron expression {expression:?} makes no schedule: {reason}"),
        });
        Self(Kind::Cron(Arc::new(times)))
    }
}

/// What an expression names, or why it makes no schedule.
pub(super) type Times = Result<Cron, SettingError>;

pub(super) fn longest_gap(times: &Times) -> Option<Duration> {
    let next: Vec<_> = times.as_ref().ok()?.iter_after(Utc::now()).take(CRON_TIMES).collect();
    next.windows(2).filter_map(|two| (two[1] - two[0]).to_std().ok()).max()
}

/// Whether there is a time after the first of these moments, up to the second, both in µs since the Unix epoch.
pub(super) fn is_one_between(times: &Times, after_us: i64, until_us: i64) -> bool {
    let Ok(cron) = times else { return false };
    let after = DateTime::<Utc>::from_timestamp_micros(after_us);
    let next = after.and_then(|after| cron.find_next_occurrence(&after, false).ok());
    next.is_some_and(|next| next.timestamp_micros() <= until_us)
}

fn read(expression: &str) -> Result<Cron, String> {
    let cron: Cron = expression.parse().map_err(|error: CronError| error.to_string())?;
    let now = Utc::now();
    match cron.find_next_occurrence(&now, false) {
        Ok(next) if (next - now).num_days() < CRON_HORIZON => Ok(cron),
        _ => Err("it names no time within the next ten years".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Generation;

    const SECOND: i64 = 1_000_000;
    const NOON: i64 = 1_767_268_800 * SECOND; // 2026-01-01T12:00:00Z

    fn due(schedule: &Schedule, built: i64, now: i64) -> bool {
        schedule.is_due(Generation::new(built).unwrap(), Duration::ZERO, now)
    }

    #[test]
    fn cron_is_due_once_per_occurrence() {
        let nightly = Schedule::cron("30 3 * * *");
        let night = NOON + (15 * 3600 + 1800) * SECOND;
        assert!(!due(&nightly, NOON, night - SECOND));
        assert!(due(&nightly, NOON, night));
        assert!(!due(&nightly, night + SECOND, night + 3600 * SECOND));
    }

    #[test]
    fn a_clock_set_back_does_not_stop_rebuilds() {
        let nightly = Schedule::cron("30 3 * * *");
        for ahead in [600, 3600, 23 * 3600, 48 * 3600] {
            let future = Generation::new(NOON + ahead * SECOND).unwrap();
            let due = |hours: u64| nightly.is_due(future, Duration::from_secs(hours * 3600), NOON);
            assert!(!due(8), "{ahead} s ahead, and no night since");
            assert!(due(9), "{ahead} s ahead");
        }
    }

    #[test]
    fn clocks_that_differ_a_little_do_not_hasten_rebuilds() {
        let schedule = Schedule::cron("*/10 * * * *");
        for ahead in [1, 60, 300] {
            let built = Generation::new(NOON + ahead * SECOND).unwrap();
            let due = schedule.is_due(built, Duration::from_secs(3600), NOON);
            assert!(!due, "{ahead} s");
        }
    }

    #[test]
    fn a_bad_expression_is_named() {
        let told = Schedule::cron("61 * * * *").judge().unwrap_err().to_string();
        assert!(
            told.starts_with("rebuild: cron expression \"61 * * * *\" makes no schedule: "),
            "{told}"
        );
        assert!(!told.ends_with(": "), "the parser's reason is given: {told}");
    }
}
