//! Scans that find far fewer ids than the last filter was built from.
//!
//! The source may be an empty view or a wrong tenant, or many rows were deleted. At first such a scan is
//! given up. It must not be given up for ever: a filter that is never replaced keeps the false positives
//! that attackers have learnt, and one that is not trusted any more answers nothing. So a count that
//! lasts is believed:
//!
//! | the scan would replace | a count is believed when it lasts | counts are the same within |
//! |---|---|---|
//! | a filter that answers | a day, so that an operator can look | 10 %, or more |
//! | none that does | a minute, so that the source has to be stable, and no more | 1 % |

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::filter::Generation;

/// An hour less than a day, so that the next night's scan is not a moment too early.
const DAY: Duration = Duration::from_secs(23 * 60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
/// Counts this close are the same in any case.
const FEW: u64 = 10;

#[derive(Default)]
pub(super) struct Shortfall(Mutex<Option<First>>);

struct First {
    at: Instant,
    found: u64,
    last: u64,
    /// The filter that it would have replaced, if one answered.
    replaces: Option<Generation>,
}

impl Shortfall {
    /// Notes a scan that found far fewer ids; returns whether that has lasted for long enough. A filter that
    /// another process has put live since begins the time anew, because its scan found more.
    pub(super) fn lasts(&self, found: u64, replaces: Option<Generation>, now: Instant) -> bool {
        let (time, share) = if replaces.is_some() { (DAY, 0.1) } else { (MINUTE, 0.01) };
        let are_same =
            |one: u64, other: u64| one.abs_diff(other) <= ((one as f64 * share) as u64).max(FEW);
        let mut first = self.0.lock();
        if let Some(first) = &mut *first
            && first.replaces == replaces
            // A table that is being restored grows, and is waited for. Within a day, growth must not put the end off: whether the
            // restoring is over shows in the last scan. A fall may be a wrong tenant, and begins anew.
            && (are_same(first.found, found) || replaces.is_some() && found > first.found)
            && (are_same(first.last, found) || found > first.last)
        {
            let last = std::mem::replace(&mut first.last, found);
            return now.duration_since(first.at) >= time && are_same(last, found);
        }
        *first = Some(First { at: now, found, last: found, replaces });
        false
    }

    /// Ends the shortfall: a scan found enough ids, or none, or was believed.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    /// Notes that a filter answers: a count that was found while none did is forgotten.
    pub(super) fn note_trust(&self) {
        let mut first = self.0.lock();
        *first = first.take().filter(|first| first.replaces.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(generation: i64) -> Option<Generation> {
        Some(Generation::new(generation).unwrap())
    }

    #[test]
    fn the_same_count_for_long_enough_is_believed_and_no_earlier() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_000, trusted(1), now));
        assert!(!shortfall.lasts(8_100, trusted(1), now + DAY - MINUTE));
        assert!(shortfall.lasts(7_900, trusted(1), now + DAY));

        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_000, None, now));
        assert!(!shortfall.lasts(8_000, None, now + MINUTE / 2));
        assert!(shortfall.lasts(8_000, None, now + MINUTE));
    }

    #[test]
    fn a_table_that_is_being_restored_is_not_believed_before_it_is() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        for (n, found) in [1_000, 2_000, 3_000, 4_000].into_iter().enumerate() {
            assert!(!shortfall.lasts(found, None, now + MINUTE * n as u32));
        }
        assert!(!shortfall.lasts(4_030, None, now + MINUTE * 3 + MINUTE / 2));
        assert!(!shortfall.lasts(4_060, None, now + MINUTE * 4), "slowly, too");
        assert!(shortfall.lasts(4_060, None, now + MINUTE * 5));
        assert!(!shortfall.lasts(40, None, now + MINUTE * 6), "or emptied");
    }

    #[test]
    fn a_count_that_goes_up_and_down_does_not_put_it_off() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_990, trusted(1), now));
        assert!(!shortfall.lasts(8_200, trusted(1), now + DAY / 2), "it fell");
        assert!(shortfall.lasts(8_990, trusted(1), now + DAY));
    }

    #[test]
    fn a_wrong_tenant_amid_a_shortfall_is_not_believed_before_it_has_lasted_itself() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        for (hours, found) in [(0, 500), (1, 890_000), (22, 890_000), (24, 500), (25, 500)] {
            let at = now + Duration::from_secs(3600 * hours);
            assert!(!shortfall.lasts(found, trusted(1), at), "hour {hours}");
        }
        assert!(shortfall.lasts(500, trusted(1), now + DAY * 3));
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
        assert!(!shortfall.lasts(500, None, now));
        shortfall.note_trust();
        assert!(!shortfall.lasts(500, None, now + DAY));
        assert!(!shortfall.lasts(500, trusted(1), now + DAY));
        shortfall.note_trust();
        assert!(shortfall.lasts(500, trusted(1), now + DAY * 2));
    }

    /// One process has a wrong tenant, and another one rebuilds rightly in between.
    #[test]
    fn a_filter_of_another_process_begins_it_anew() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        for hour in 0..72 {
            let at = now + DAY / 24 * hour;
            assert!(!shortfall.lasts(500, trusted(i64::from(hour) + 1), at), "hour {hour}");
        }
        assert!(!shortfall.lasts(500, None, now + DAY * 4), "so does trust that is lost");
    }

    #[test]
    fn a_scan_that_finds_enough_ends_it() {
        let now = Instant::now();
        let shortfall = Shortfall::default();
        assert!(!shortfall.lasts(8_000, None, now));
        shortfall.end();
        assert!(!shortfall.lasts(8_000, None, now + MINUTE));
    }
}
