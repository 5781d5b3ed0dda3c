//! The filter's arithmetic against twins that do it bit by bit, as the format's specification says it.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::filter::lengths::{BLOCK_LEN, MAX_BLOCKS, MAX_HASHES};
use crate::filter::{Filter, Generation, Geometry, Header, Membership, Position, Sizing};
use crate::id::Digest;

/// `SplitMix64`'s n-th word after a seed.
fn split_mix(seed: u64, n: u64) -> u64 {
    let state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(n));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The positions of a digest: its block, and its bits in that block.
fn naive_bits(geometry: Geometry, digest: &Digest) -> (u32, BTreeSet<u32>) {
    let hash = murmur3::murmur3_x64_128(&mut digest.as_bytes().as_slice(), geometry.seed);
    let hash = hash.unwrap();
    let (h1, h2) = (hash as u64, (hash >> 64) as u64);
    let block = (u128::from(h1) * u128::from(geometry.blocks)) / (1 << 64);
    let words = (0..).map(|n| if n == 0 { h2 } else { split_mix(h2, n) });
    let bits = words.flat_map(|word| (0..7).map(move |i| ((word >> (9 * i)) & 511) as u32));
    (block as u32, bits.take(geometry.hashes.into()).collect())
}

/// A stored string's blocks, set and read one bit at a time as Redis does it.
struct Naive(Vec<u8>);

impl Naive {
    fn of(geometry: Geometry, digests: &[Digest]) -> Self {
        let mut naive = Self(vec![0; geometry.blocks as usize * BLOCK_LEN]);
        for bit in digests.iter().flat_map(|digest| Self::bits(geometry, digest)) {
            naive.0[bit / 8] |= 0x80 >> (bit % 8);
        }
        naive
    }

    fn bits(geometry: Geometry, digest: &Digest) -> impl Iterator<Item = usize> {
        let (block, bits) = naive_bits(geometry, digest);
        bits.into_iter().map(move |bit| block as usize * BLOCK_LEN * 8 + bit as usize)
    }

    fn lookup(&self, geometry: Geometry, digest: &Digest) -> Membership {
        let set = |bit: usize| self.0[bit / 8] & (0x80 >> (bit % 8)) != 0;
        let all = Self::bits(geometry, digest).all(set);
        if all { Membership::Possible } else { Membership::Never }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn positions_are_those_found_bit_by_bit(
        digest: [u8; 16],
        blocks in 1..=MAX_BLOCKS,
        hashes in 1..=MAX_HASHES,
        seed: u32,
    ) {
        let (digest, geometry) =
            (Digest::from_bytes(digest), Geometry::new(blocks, hashes, seed).unwrap());
        let position: Position = geometry.position(&digest);
        let (block, bits) = naive_bits(geometry, &digest);
        prop_assert_eq!(position.block, block);
        prop_assert!(block < blocks);
        let start = (128 + 64 * block) * 8;
        let offsets: Vec<_> = bits.iter().map(|bit| start + bit).collect();
        prop_assert_eq!(position.bit_offsets().collect::<Vec<_>>(), offsets);
    }

    #[test]
    fn the_fast_filter_agrees_with_the_bit_by_bit_one(
        blocks in 1_u32..40,
        hashes in 1..=MAX_HASHES,
        seed: u32,
        inserted: Vec<[u8; 16]>,
        asked: Vec<[u8; 16]>,
    ) {
        let geometry = Geometry::new(blocks, hashes, seed).unwrap();
        let inserted: Vec<_> = inserted.into_iter().map(Digest::from_bytes).collect();
        let filter = Filter::new(geometry);
        inserted.iter().for_each(|digest| filter.insert(digest));
        let naive = Naive::of(geometry, &inserted);

        let mut bytes = Vec::new();
        filter.write_blocks(0..blocks / 2, &mut bytes);
        filter.write_blocks(blocks / 2..blocks, &mut bytes);
        prop_assert_eq!(&bytes, &naive.0);

        let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
        prop_assert_eq!(filter.ones_in(0..1) + filter.ones_in(1..blocks), ones);

        for digest in &inserted {
            prop_assert_eq!(filter.lookup(digest), Membership::Possible);
        }
        for digest in asked.into_iter().map(Digest::from_bytes) {
            let expected = naive.lookup(geometry, &digest);
            prop_assert_eq!(filter.lookup(&digest), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn a_filter_keeps_its_rate_and_one_block_less_would_not(
        capacity in 1_u64..10_000_000,
        exponent in -9.0..-0.302_f64,
    ) {
        let rate = 10_f64.powf(exponent);
        let sizing = Sizing::new(capacity, rate).unwrap();
        prop_assert!(sizing.expected_rate(capacity) <= rate);
        let geometry = sizing.geometry(0);
        if let Some(geometry) = Geometry::new(geometry.blocks - 1, geometry.hashes, 0) {
            let header = Header::new(Generation::MAX, 0, &sizing, 0);
            let fewer = Header { geometry, items: capacity as u32, ..header };
            prop_assert!(fewer.expected_rate() > rate);
        }
    }

    #[test]
    fn more_ids_or_a_lower_rate_never_take_less_room(
        capacity in 1_u64..5_000_000,
        more in 0_u64..5_000_000,
        exponent in -8.0..-0.302_f64,
        lower in 0.1..=1.0_f64,
    ) {
        let rate = 10_f64.powf(exponent);
        let sizing = Sizing::new(capacity, rate).unwrap();
        prop_assert!(Sizing::new(capacity + more, rate).unwrap().bytes() >= sizing.bytes());
        prop_assert!(Sizing::new(capacity, rate * lower).unwrap().bytes() >= sizing.bytes());
        let full = sizing.expected_rate(capacity);
        prop_assert!(sizing.expected_rate(capacity + more) >= full * (1.0 - 1e-12));
    }
}
