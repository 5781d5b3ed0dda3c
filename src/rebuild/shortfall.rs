//! A scan that finds far fewer ids than the last one: an empty view, a wrong tenant, or many deletions.
//!
//! It is given up at first. It must not be given up for ever: a filter that is never replaced keeps the
//! false positives that attackers have learnt, and one that is not trusted any more answers nothing. So
//! when the same is found for long enough, it is what there is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long the source has to say the same, and how far two counts may differ that are the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    time: Duration,
    tolerance: f64,
}

impl Patience {
    /// While a filter answers: somebody has a day to look.
    pub(super) fn with_a_filter(limit: f64) -> Self {
        Self { time: Duration::from_secs(24 * 60 * 60), tolerance: limit }
    }

    /// While none does, requests keep to a lane: the source has to be stable, and no more.
    pub(super) fn without_a_filter() -> Self {
        Self { time: Duration::from_secs(60), tolerance: 0.01 }
    }
}

/// Since when a source has given about so many ids, far fewer than the live filter was built from.
#[derive(Debug, Default)]
pub(super) struct Shortfall(Mutex<Option<(Instant, u64)>>);

impl Shortfall {
    /// Notes a scan that found far fewer ids; returns whether that has been so for long enough.
    pub(super) fn lasts(&self, found: u64, patience: Patience, now: Instant) -> bool {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, before)) = *first
            && found.abs_diff(before) as f64 <= before as f64 * patience.tolerance
        {
            return now.duration_since(since) >= patience.time;
        }
        *first = Some((now, found));
        false
    }

    /// Notes a scan that found enough.
    pub(super) fn is_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn the_same_count_for_long_enough_is_believed_and_no_earlier() {
        let now = Instant::now();
        let day = Patience::with_a_filter(0.1);
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(800, day, now));
        assert!(!shortfall.lasts(810, day, now + DAY - MINUTE));
        assert!(shortfall.lasts(790, day, now + DAY));

        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(800, Patience::without_a_filter(), now));
        assert!(!shortfall.lasts(800, Patience::without_a_filter(), now + MINUTE / 2));
        assert!(shortfall.lasts(800, Patience::without_a_filter(), now + MINUTE));
    }

    #[test]
    fn a_count_that_changes_begins_anew() {
        let now = Instant::now();
        let minute = Patience::without_a_filter();
        let shortfall = Shortfall::default();
        for (n, found) in [100, 200, 300, 400].into_iter().enumerate() {
            let growing = now + MINUTE * n as u32;
            assert!(!shortfall.lasts(found, minute, growing), "a table that is being restored");
        }
        assert!(shortfall.lasts(400, minute, now + MINUTE * 4));
        assert!(!shortfall.lasts(0, minute, now + MINUTE * 5), "or emptied");
    }

    #[test]
    fn a_scan_that_finds_enough_ends_it() {
        let now = Instant::now();
        let minute = Patience::without_a_filter();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(800, minute, now));
        shortfall.is_over();
        assert!(!shortfall.lasts(800, minute, now + MINUTE));
    }
}
