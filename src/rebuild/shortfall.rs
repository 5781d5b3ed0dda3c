//! A scan that finds far fewer ids than the last one: an empty view, a wrong tenant, or many deletions.
//!
//! It is given up at first. It must not be given up for ever: a filter that is never replaced keeps the
//! false positives that attackers have learnt, and one that is not trusted any more answers nothing. So
//! when the same is found for long enough, it is what there is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::filter::Generation;

/// What the scan would replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    /// A filter that answers: somebody has a day to look.
    OfTrusted(Generation),
    /// None that does, so that requests keep to a lane: the source has to be stable, and no more.
    OfNone,
}

/// For how long a source has to say the same, and how far counts may differ that are the same.
/// An hour less than a day, so that the next night's scan is not a moment too early.
const DAY: Duration = Duration::from_secs(23 * 60 * 60);
const OVER_A_DAY: f64 = 0.1;
const MINUTE: Duration = Duration::from_secs(60);
const OVER_A_MINUTE: f64 = 0.01;
/// So far in any case.
const FEW: u64 = 10;

/// Since when a source has given about so many ids, far fewer than the last filter was built from.
#[derive(Debug, Default)]
pub(super) struct Shortfall(Mutex<Option<First>>);

#[derive(Debug, Clone, Copy)]
struct First {
    at: Instant,
    found: u64,
    /// What the scan before this one found.
    last: u64,
    instead: Instead,
}

impl Shortfall {
    /// Notes a scan that found far fewer ids; returns whether that has been so for long enough.
    ///
    /// A filter that somebody else has put live meanwhile begins it anew: his source says otherwise.
    pub(super) fn lasts(&self, found: u64, instead: Instead, now: Instant) -> bool {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = &mut *first
            && first.instead == instead
            && first.says_the_same(found)
        {
            let time = if instead == Instead::OfNone { MINUTE } else { DAY };
            let last = std::mem::replace(&mut first.last, found);
            return now.duration_since(first.at) >= time
                && found <= last + within(last, OVER_A_DAY);
        }
        *first = Some(First { at: now, found, last: found, instead });
        false
    }

    /// Notes a scan that found enough, or nothing at all.
    pub(super) fn is_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Notes that there is a filter to trust: what was found for want of one counts no more.
    pub(super) fn note_trust(&self) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *first = first.take().filter(|first| first.instead != Instead::OfNone);
    }
}

/// How far a count may be from another one that is about the same.
fn within(count: u64, share: f64) -> u64 {
    ((count as f64 * share) as u64).max(FEW)
}

impl First {
    fn says_the_same(&self, found: u64) -> bool {
        match self.instead {
            // Growth must not be a way to put it off: it is enough that it has ended.
            Instead::OfTrusted(_) => found + within(self.found, OVER_A_DAY) >= self.found,
            // A table that is being restored grows.
            Instead::OfNone => found.abs_diff(self.found) <= within(self.found, OVER_A_MINUTE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(generation: i64) -> Instead {
        Instead::OfTrusted(Generation::new(generation).unwrap())
    }

    #[test]
    fn the_same_count_for_long_enough_is_believed_and_no_earlier() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_000, trusted(1), now));
        assert!(!shortfall.lasts(8_100, trusted(1), now + DAY - MINUTE));
        assert!(shortfall.lasts(7_900, trusted(1), now + DAY));

        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_000, Instead::OfNone, now));
        assert!(!shortfall.lasts(8_000, Instead::OfNone, now + MINUTE / 2));
        assert!(shortfall.lasts(8_000, Instead::OfNone, now + MINUTE));
    }

    #[test]
    fn a_table_that_is_being_restored_is_not_believed_before_it_is() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        for (n, found) in [1_000, 2_000, 3_000, 4_000].into_iter().enumerate() {
            assert!(!shortfall.lasts(found, Instead::OfNone, now + MINUTE * n as u32));
        }
        assert!(shortfall.lasts(4_000, Instead::OfNone, now + MINUTE * 4));
        assert!(!shortfall.lasts(40, Instead::OfNone, now + MINUTE * 5), "or emptied");
    }

    #[test]
    fn a_count_that_goes_up_and_down_does_not_put_it_off() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_990, trusted(1), now));
        assert!(!shortfall.lasts(8_000, trusted(1), now + DAY / 2), "it fell");
        assert!(!shortfall.lasts(8_990, trusted(1), now + DAY));
        assert!(shortfall.lasts(8_000, trusted(1), now + DAY * 2));
    }

    #[test]
    fn a_table_that_is_restored_just_then_is_waited_for() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(500, trusted(1), now));
        assert!(!shortfall.lasts(3_000, trusted(1), now + DAY));
        assert!(!shortfall.lasts(6_000, trusted(1), now + DAY + MINUTE));
        assert!(shortfall.lasts(6_000, trusted(1), now + DAY + MINUTE * 2));
    }

    #[test]
    fn what_was_found_before_there_was_a_filter_to_trust_counts_no_more() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(500, Instead::OfNone, now));
        shortfall.note_trust();
        assert!(!shortfall.lasts(500, Instead::OfNone, now + DAY));
        assert!(!shortfall.lasts(500, trusted(1), now + DAY));
        shortfall.note_trust();
        assert!(shortfall.lasts(500, trusted(1), now + DAY * 2));
    }

    /// One process has a wrong tenant, and another one rebuilds rightly in between.
    #[test]
    fn a_filter_of_somebody_elses_begins_it_anew() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        for hour in 0..72 {
            let at = now + DAY / 24 * hour;
            assert!(!shortfall.lasts(500, trusted(i64::from(hour) + 1), at), "hour {hour}");
        }
        assert!(
            !shortfall.lasts(500, Instead::OfNone, now + DAY * 4),
            "so does trust that is lost"
        );
    }

    #[test]
    fn a_scan_that_finds_enough_ends_it() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_000, Instead::OfNone, now));
        shortfall.is_over();
        assert!(!shortfall.lasts(8_000, Instead::OfNone, now + MINUTE));
    }
}
