//! A filter's bits in this process.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::block::{Geometry, Membership, Position, word_of};
#[cfg(feature = "redis")]
use super::lengths::BLOCK_LEN;
use super::rate::{false_positive_rate, load_of};
use crate::id::Digest;

/// The number of ids whose blocks are fetched at once. Their positions fit the innermost cache.
const FETCHED: usize = 64;

/// How many blocks are counted, at least and at most, to estimate the number of ids within a hundredth.
const COUNTED: RangeInclusive<usize> = 64..=1_024;

/// The bits of a filter in memory, to be filled and asked by any number of threads at once.
///
/// All accesses are relaxed. Bits only ever turn on, no bit says anything about another, and whoever
/// must see an insert has been told of it by other means (an acknowledgement, a join), which orders
/// the two. A look-up that races an insert may see half of it and say [`Membership::Never`]: that
/// insert has not returned yet.
pub(crate) struct Filter {
    pub(crate) geometry: Geometry,
    pub(super) blocks: Box<[Block]>,
}

impl Filter {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: (0..geometry.blocks).map(|_| Block::default()).collect() }
    }

    pub(crate) fn insert(&self, digest: &Digest) {
        let position = self.geometry.position(digest);
        let block = &self.blocks[position.block as usize].0;
        for (word, mask) in block.iter().zip(&position.mask) {
            if *mask != 0 {
                word.fetch_or(*mask, Ordering::Relaxed);
            }
        }
    }

    /// Inserts many ids into a filter that no other thread has. Blocks are fetched many at a time, as a large filter is in no near cache.
    pub(crate) fn insert_all(&mut self, digests: &[Digest]) {
        for digests in digests.chunks(FETCHED) {
            let positions: SmallVec<[Position; FETCHED]> =
                digests.iter().map(|digest| self.geometry.position(digest)).collect();
            // One word brings its whole block.
            let blocks = &mut self.blocks;
            let fetched = positions.iter().map(|it| *blocks[it.block as usize].0[0].get_mut());
            black_box(fetched.fold(0, |all, word| all ^ word));
            for Position { block, mask } in positions {
                for (word, mask) in blocks[block as usize].0.iter_mut().zip(mask) {
                    *word.get_mut() |= mask;
                }
            }
        }
    }

    pub(crate) fn lookup(&self, digest: &Digest) -> Membership {
        let (block, mut groups) = self.geometry.bits(digest);
        let words = &self.blocks[block as usize].0;
        let shifted = |bit: u32| words[word_of(bit)].load(Ordering::Relaxed) << (bit % 64);
        // Decided once a group: an absent id's bit is as likely set as not, which no processor foresees.
        let all_set = groups.all(|group| {
            let topmost = group.fold(u64::MAX, |all, bit| all & shifted(bit));
            topmost >> 63 == 1
        });
        if all_set { Membership::Possible } else { Membership::Never }
    }

    /// Returns the false-positive rate if the filter holds more ids than `capacity`, by the set bits of some blocks; a small filter has too few.
    pub(crate) fn rate_beyond(&self, capacity: u64) -> Option<f64> {
        let Geometry { blocks, hashes, .. } = self.geometry;
        let counted = &self.blocks[..self.blocks.len().min(*COUNTED.end())];
        let words = counted.iter().flat_map(|Block(words)| words);
        let set: u64 = words.map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
        let fill = set as f64 / (counted.len() * 512) as f64;
        let ids = (load_of(hashes, fill) * f64::from(blocks)) as u64;
        let is_beyond = ids > capacity && COUNTED.contains(&counted.len());
        is_beyond.then(|| false_positive_rate(blocks, hashes, ids))
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn byte_len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }
}

/// One block. The alignment keeps it within one cache line, which is what blocks are for.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Block(pub(super) [AtomicU64; 8]);

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::filter::Sizing;

    fn digest(n: u64) -> Digest {
        Digest::from_bytes(
            u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes(),
        )
    }

    #[test]
    fn inserts_from_many_threads_are_all_there() {
        let filter = Filter::new(Sizing::new(4000, 0.01).unwrap().geometry(1));
        thread::scope(|scope| {
            for part in 0..4 {
                let filter = &filter;
                scope.spawn(move || {
                    (part * 1000..(part + 1) * 1000).for_each(|n| filter.insert(&digest(n)));
                });
            }
        });
        assert!((0..4000).all(|n| filter.lookup(&digest(n)) == Membership::Possible));
    }

    #[test]
    fn the_rate_is_told_of_a_filter_that_holds_more_than_it_is_sized_for() {
        for rate in [0.03, 1e-3, 1e-6] {
            let sizing = Sizing::new(100_000, rate).unwrap();
            let filter = Filter::new(sizing.geometry(1));
            (0..90_000).map(digest).for_each(|digest| filter.insert(&digest));
            assert_eq!(filter.rate_beyond(100_000), None);
            (90_000..200_000).map(digest).for_each(|digest| filter.insert(&digest));
            let (shown, expected) =
                (filter.rate_beyond(100_000).unwrap(), sizing.expected_rate(200_000));
            assert!((0.8..1.25).contains(&(shown / expected)), "{shown}, not {expected}");
        }
        let small = Filter::new(Sizing::new(100, 0.01).unwrap().geometry(1));
        (0..200).map(digest).for_each(|digest| small.insert(&digest));
        assert_eq!(small.rate_beyond(100), None);
    }

    #[test]
    fn ids_put_in_together_are_as_those_put_in_one_by_one() {
        let geometry = Sizing::new(4000, 0.001).unwrap().geometry(1);
        for count in [0, 1, FETCHED, FETCHED + 1, 4000] {
            let digests: Vec<Digest> = (0..count as u64).map(digest).collect();
            let (one_by_one, mut together) = (Filter::new(geometry), Filter::new(geometry));
            digests.iter().for_each(|digest| one_by_one.insert(digest));
            together.insert_all(&digests);
            let words = |filter: &Filter| -> Vec<u64> {
                let words = filter.blocks.iter().flat_map(|block| &block.0);
                words.map(|word| word.load(Ordering::Relaxed)).collect()
            };
            assert_eq!(words(&together), words(&one_by_one), "{count}");
        }
    }
}
