//! The seal: 64 bits behind a filter's last, which no id's bits fall on.
//!
//! A bitmap has no header, and a missing key reads as zeros. So a seal is written when the application says that the filter
//! is whole. It goes wherever the string goes, and is lost with it. Each command that reads an id's bits reads the seal
//! along, in the same step: if it is another, the filter was not whole at that very moment, and what the command says of
//! the id proves nothing.
//!
//! A copy of the filter has its seal, too. So the seal is turned over once a second (`look.lua`): the statement beside the
//! filter names the last two, and a copy from before has neither.

use super::hash::murmur3;
use super::layout::MOST_BITS;
use crate::random;

/// Bits in a seal, and in a word that is watched.
pub(super) const WORD: u64 = 64;
/// Bits of a seal that are set: few, so that a count of all bits, as Redisson makes one, is off by two ids at most. Eight are
/// drawn, in the upper half; the lower half follows from them, so that a seal of any age is told from a writer's bits.
const DRAWN: u32 = 8;
const FOLLOWING: u32 = 4;

/// Returns the first bit of the seal behind so many bits, a multiple of 64, if there is room for one.
pub(super) fn place(end: u64) -> Option<u64> {
    let first = end.next_multiple_of(WORD);
    (first + WORD <= MOST_BITS).then_some(first)
}

/// Returns a new seal.
pub(super) fn draw() -> u64 {
    let mut drawn = 0_u32;
    while drawn.count_ones() < DRAWN {
        drawn |= 1 << (random::scatter() % 32);
    }
    complete(drawn)
}

/// Whether a word is a seal of any age.
pub(super) fn is_seal(word: u64) -> bool {
    let drawn = (word >> 32) as u32;
    drawn.count_ones() == DRAWN && word == complete(drawn)
}

fn complete(drawn: u32) -> u64 {
    let (mut following, mut number) = (0_u64, 0_u32);
    while following.count_ones() < FOLLOWING {
        let bytes = [drawn.to_be_bytes(), number.to_be_bytes()].concat();
        following |= 1 << (murmur3(&bytes).0 % 32);
        number += 1;
    }
    u64::from(drawn) << 32 | following
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_known_again_and_no_other_word_is_one() {
        for _ in 0..1_000 {
            let seal = draw();
            assert_eq!(seal.count_ones(), DRAWN + FOLLOWING);
            assert!(is_seal(seal));
            assert!((0..64).all(|bit| !is_seal(seal ^ (1 << bit))));
        }
        assert!(!is_seal(0) && !is_seal(u64::MAX));
    }

    #[test]
    fn a_filter_that_fills_a_string_has_no_room_for_a_seal() {
        assert_eq!(place(1), Some(64));
        assert_eq!(place(64), Some(64));
        assert_eq!(place(MOST_BITS - 64), Some(MOST_BITS - 64));
        assert_eq!(place(MOST_BITS - 63), None);
    }
}
