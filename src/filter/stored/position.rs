//! Where the bits of an id are in the stored string.

#[cfg(test)]
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
    #[cfg(test)]
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

    /// Returns what the block's bits say of the id.
    pub(crate) fn is_in(&self, words: &[u64; 8]) -> Membership {
        let set = |(mask, word): (&u64, &u64)| mask & !word == 0;
        let is_in = self.mask.iter().zip(words).all(set);
        if is_in { Membership::Possible } else { Membership::Never }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::block::Geometry;
    use crate::filter::lengths::{MAX_BLOCKS, MAX_HASHES, MAX_STRING_LEN, string_len};
    use crate::id::Digest;

    #[test]
    fn a_block_holds_an_id_where_each_of_its_bits_is_set() {
        for hashes in [1, 2, 10, MAX_HASHES] {
            let geometry = Geometry { blocks: 1_000_000, hashes, seed: 7 };
            for n in 0..1000_u128 {
                let digest = Digest::from_bytes(n.wrapping_mul(u128::MAX / 997).to_le_bytes());
                let position = geometry.position(&digest);
                let first = position.byte_offset() * 8;
                for words in [position.mask, [u64::MAX; 8]] {
                    assert_eq!(position.is_in(&words), Membership::Possible);
                    for bit in position.bit_offsets().map(|bit| bit - first) {
                        let mut words = words;
                        words[(bit / 64) as usize] &= !(1 << (63 - bit % 64));
                        assert_eq!(position.is_in(&words), Membership::Never);
                    }
                }
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
