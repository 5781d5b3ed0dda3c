//! The seal: 64 bits behind a filter's last, which no id's bits fall on.
//!
//! A bitmap has no header, and a missing key reads as zeros. So a seal is written when the application says that the filter
//! is whole. It goes wherever the string goes, and is lost with it. Each command that reads an id's bits reads the seal
//! along, in the same step: if it is another, the filter was not whole at that very moment, and what the command says of
//! the id proves nothing.
//!
//! A copy of the filter has its seal, too. So the seal is turned over once a second (`look.lua`): the statement beside the
//! filter names the last two, and a copy from before has neither.

use super::layout::MOST_BITS;
use crate::random;

/// Bits in a seal, and in a word that is watched.
pub(super) const WORD: u64 = 64;
/// Bits that are set in either half: few, so that a count of all bits, as Redisson makes one, is off by two ids.
const SET: u32 = 7;
/// The lower half is the upper one, turned so far: so `state.lua` tells a seal of any age from a writer's bits.
const TURNED: u32 = 13;

/// Returns the first bit of the seal behind the bits before `end`, a multiple of 64, if there is room for one.
pub(super) fn place(end: u64) -> Option<u64> {
    let first = end.next_multiple_of(WORD);
    (first + WORD <= MOST_BITS).then_some(first)
}

/// Returns a new seal.
pub(super) fn draw() -> u64 {
    let mut half = 0_u32;
    while half.count_ones() < SET {
        half |= 1 << (random::scatter() % 32);
    }
    u64::from(half) << 32 | u64::from(half.rotate_left(TURNED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_fills_a_string_has_no_room_for_a_seal() {
        assert_eq!(place(1), Some(64));
        assert_eq!(place(64), Some(64));
        assert_eq!(place(MOST_BITS - 64), Some(MOST_BITS - 64));
        assert_eq!(place(MOST_BITS - 63), None);
    }
}
