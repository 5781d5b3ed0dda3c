//! Where the bits of an id are in the stored string.

use std::iter;

use crate::filter::block::{Membership, Position};
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};

impl Position {
    /// Returns where the block begins, in bytes from the start of the stored string.
    pub(crate) const fn byte_offset(&self) -> u32 {
        FRONT_LEN as u32 + self.block * BLOCK_LEN as u32
    }

    /// Returns the offsets of the bits from the start of the stored string, distinct and ascending.
    ///
    /// The longest string has 2³² bits, so the greatest offset fits a `u32` (and is the greatest that
    /// `SETBIT` takes).
    pub(crate) fn bit_offsets(&self) -> impl Iterator<Item = u32> + use<> {
        let (mut first, mut words) = (self.byte_offset() * 8, self.mask.into_iter());
        let mut mask = words.next().unwrap_or_default();
        iter::from_fn(move || {
            while mask == 0 {
                mask = words.next()?;
                first += u64::BITS;
            }
            let bit = mask.leading_zeros();
            mask &= !(1 << (63 - bit));
            Some(first + bit)
        })
    }

    /// Returns the bits as few spans, in ascending order.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> + use<> {
        let mut offsets = self.bit_offsets().peekable();
        iter::from_fn(move || {
            let offset = offsets.next()?;
            let mut span = Span { offset, width: 1, mask: 1 };
            while let Some(next) = offsets.next_if(|next| next - offset < Span::WIDEST) {
                let width = next - offset + 1;
                span.mask = span.mask << (width - span.width) | 1;
                span.width = width;
            }
            Some(span)
        })
    }

    /// Returns what the block's bits say of the id.
    pub(crate) fn is_in(&self, words: &[u64; 8]) -> Membership {
        let set = |(mask, word): (&u64, &u64)| mask & !word == 0;
        Membership::possible_if(self.mask.iter().zip(words).all(set))
    }
}

/// A part of a block that begins and ends with bits of an id, to be read as one number by `BITFIELD … GET u<width>`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// Where it begins: a bit, counted from the start of the stored string.
    pub(crate) offset: u32,
    /// How many bits it has.
    pub(crate) width: u32,
    /// Which of them are the id's.
    mask: u64,
}

impl Span {
    /// The most bits that `BITFIELD` reads as an unsigned number.
    const WIDEST: u32 = 63;

    /// Returns what the number that was read there says of the id.
    pub(crate) const fn is_in(&self, number: u64) -> Membership {
        Membership::possible_if(self.mask & !number == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::block::Geometry;
    use crate::filter::lengths::{MAX_BLOCKS, MAX_HASHES, MAX_STRING_LEN, string_len};
    use crate::id::Digest;

    #[test]
    fn spans_are_the_bits_of_an_id_and_no_others() {
        for hashes in [1, 2, 10, MAX_HASHES] {
            let geometry = Geometry::sized(1_000_000, hashes, 7);
            for n in 0..1000_u128 {
                let digest = Digest::from_bytes(n.wrapping_mul(u128::MAX / 997).to_le_bytes());
                let position = geometry.position(&digest);
                let bits = |span: Span| {
                    assert!((1..=Span::WIDEST).contains(&span.width), "{span:?}");
                    assert_eq!(span.mask >> (span.width - 1), 1, "{span:?}");
                    (0..span.width)
                        .filter(move |bit| span.mask >> (span.width - 1 - bit) & 1 == 1)
                        .map(move |bit| span.offset + bit)
                };
                let in_spans: Vec<u32> = position.spans().flat_map(bits).collect();
                assert_eq!(in_spans, position.bit_offsets().collect::<Vec<_>>());
                same_with_each_bit_cleared(&position);
            }
        }
    }

    /// Spans say what the position says: of its bits alone, of all bits, and of either with one of its bits cleared.
    fn same_with_each_bit_cleared(position: &Position) {
        let start = position.byte_offset() * 8;
        let say = |words: &[u64; 8]| {
            let read = |span: &Span| {
                let bit = |at: u32| words[(at / 64) as usize] >> (63 - at % 64) & 1;
                let first = span.offset - start;
                (first..first + span.width).fold(0, |number, at| number << 1 | bit(at))
            };
            let in_all =
                position.spans().all(|span| span.is_in(read(&span)) == Membership::Possible);
            assert_eq!(Membership::possible_if(in_all), position.is_in(words));
            in_all
        };
        for words in [position.mask, [u64::MAX; 8]] {
            assert!(say(&words));
            for bit in position.bit_offsets().map(|bit| bit - start) {
                let mut words = words;
                words[(bit / 64) as usize] &= !(1 << (63 - bit % 64));
                assert!(!say(&words));
            }
        }
    }

    #[test]
    fn the_last_bit_of_the_longest_string_has_an_offset() {
        assert_eq!(string_len(MAX_BLOCKS.into()), MAX_STRING_LEN);
        let last = Position { block: MAX_BLOCKS - 1, mask: [0, 0, 0, 0, 0, 0, 0, 1] };
        assert_eq!(u64::from(last.byte_offset()) + 128, MAX_STRING_LEN);
        let end_of_blocks = (MAX_STRING_LEN - 64) * 8;
        assert_eq!(last.bit_offsets().map(u64::from).collect::<Vec<_>>(), [end_of_blocks - 1]);
    }
}
