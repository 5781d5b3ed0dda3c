//! Where the bits of an id are.

use std::iter;

use murmur3::murmur3_x64_128;

use crate::id::Digest;

const POSITION_BITS: u32 = 9;
const POSITIONS_PER_WORD: u8 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Geometry {
    pub(crate) blocks: u32,
    pub(crate) hashes: u8,
    pub(crate) seed: u32,
}

impl Geometry {
    pub(crate) fn position(&self, digest: &Digest) -> Position {
        let (block, groups) = self.bits(digest);
        let mut mask = [0; 8];
        for bit in groups.flatten() {
            mask[word_of(bit)] |= 1 << (63 - bit % 64);
        }
        Position { block, mask }
    }

    /// Returns the block of an id, and its bits there, as many at a time as one hash has positions for.
    pub(super) fn bits(
        &self,
        digest: &Digest,
    ) -> (u32, impl Iterator<Item = impl Iterator<Item = u32>>) {
        let (h1, h2) = murmur3(digest.as_bytes(), self.seed);
        // The quotient is below `blocks`: h1 is below 2^64.
        let block = ((u128::from(h1) * u128::from(self.blocks)) >> 64) as u32;
        let mut left = self.hashes;
        let mut hash = h2;
        let mut state = h2;
        let groups = iter::from_fn(move || {
            let count = left.min(POSITIONS_PER_WORD);
            let positions = hash;
            left -= count;
            hash = split_mix(&mut state);
            let bit = move |nth| (positions >> (POSITION_BITS * nth)) as u32 % (1 << POSITION_BITS);
            (count > 0).then(|| (0..u32::from(count)).map(bit))
        });
        (block, groups)
    }
}

pub(super) const fn word_of(bit: u32) -> usize {
    (bit / 64) as usize
}

/// The bits of one id: a block and a mask over it.
///
/// Word w of a mask covers bits 64·w to 64·w + 63 of the block, the first of them being the topmost of
/// the word. That is the number a `BITFIELD … GET i64` reads there, in two's complement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    pub(crate) block: u32,
    pub(crate) mask: [u64; 8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Membership {
    /// All bits of the id are set: it is in the filter, or it is a false positive.
    Possible,
    /// A bit of the id is not set: it was never put into this filter.
    Never,
}

/// Returns both halves of `MurmurHash3` x64-128.
pub(crate) fn murmur3(mut bytes: &[u8], seed: u32) -> (u64, u64) {
    // Reading from memory does not fail.
    let hash = murmur3_x64_128(&mut bytes, seed).unwrap_or_default();
    (hash as u64, (hash >> 64) as u64)
}

/// Returns the next output of `SplitMix64` (Steele, Lea & Flood 2014).
const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_is_the_reference_one() {
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut state), 3_203_168_211_198_807_973);
    }
}
