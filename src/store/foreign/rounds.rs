//! In how many rounds a batch asks for its ids' bits.
//!
//! Half of the bits of a full filter are clear. So the first few show of most absent ids that they are absent, for a third
//! of what all of them cost. An id that has these bits waits for a second answer.
//!
//! | the batch before | this one | asks for |
//! |---|---|---|
//! | most ids lacked a bit, and it was answered soon | is large | the first bits of each id, then the others of those that have these |
//! | anything else | | all bits at once |
//! | | is small | all bits at once |

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bits of an id in the first of two rounds: of absent ids one in sixteen has them all.
pub(super) const FIRST: usize = 4;
/// With smaller batches Redis is not busy: a second round would save it little, and have ids that exist wait twice as long.
const LARGE: usize = 8;
/// An answer that takes a larger part of the deadline leaves too little for another one.
const SOON: u32 = 4;

/// How the batch before went.
#[derive(Default)]
pub(super) struct Rounds {
    in_two: AtomicBool,
}

impl Rounds {
    /// Returns which bits of each id are asked for first.
    pub(super) fn first(&self, ids: usize) -> Range<usize> {
        let in_two = ids >= LARGE && self.in_two.load(Ordering::Relaxed);
        0..if in_two { FIRST } else { usize::MAX }
    }

    /// Notes which ids had all the bits that a batch asked for first, and how long the answer took.
    pub(super) fn note(&self, held: &[bool], took: Duration, deadline: Duration) {
        let absent = held.iter().filter(|held| !**held).count();
        let in_two = absent * 2 > held.len() && took <= deadline / SOON;
        self.in_two.store(in_two, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_asked_for_at_once_without_a_flood_in_a_small_batch_and_where_redis_is_slow() {
        let deadline = Duration::from_millis(20);
        for (absent, ids, took, in_two) in [
            (51, 100, 5, true),
            (50, 100, 5, false),
            (100, 100, 6, false),
            (51, LARGE, 5, true),
            (51, LARGE - 1, 5, false),
        ] {
            let rounds = Rounds::default();
            assert_eq!(rounds.first(ids), 0..usize::MAX, "nothing is known yet");
            let held: Vec<bool> = (0..100).map(|id| id >= absent).collect();
            rounds.note(&held, Duration::from_millis(took), deadline);
            let expected = if in_two { FIRST } else { usize::MAX };
            assert_eq!(rounds.first(ids), 0..expected, "{absent} {ids} {took}");
        }
    }
}
