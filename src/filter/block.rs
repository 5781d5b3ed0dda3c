//! Where the bits of an id are.

use std::iter;

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
        let (h1, h2) = murmur3(digest, self.seed);
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

/// Returns both halves of `MurmurHash3` x64-128, which for 16 bytes is one round and the end.
const fn murmur3(digest: &Digest, seed: u32) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let words = u128::from_le_bytes(*digest.as_bytes());
    let (k1, k2) = (words as u64, (words >> 64) as u64);
    let (mut h1, mut h2) = (seed as u64, seed as u64);
    h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
    h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    h1 ^= Digest::LEN as u64;
    h2 ^= Digest::LEN as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = final_mix(h1);
    h2 = final_mix(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2)
}

const fn final_mix(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
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
    fn murmur3_is_the_reference_one() {
        for n in 0..1000_u128 {
            let digest = Digest::from_bytes(n.wrapping_mul(u128::MAX / 997).to_le_bytes());
            let seed = (n as u32).wrapping_mul(0x9e37_79b9);
            let hash = murmur3::murmur3_x64_128(&mut digest.as_bytes().as_slice(), seed).unwrap();
            assert_eq!(murmur3(&digest, seed), (hash as u64, (hash >> 64) as u64));
        }
    }

    #[test]
    fn split_mix_is_the_reference_one() {
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut state), 3_203_168_211_198_807_973);
    }
}
