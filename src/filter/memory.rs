//! A filter's bits in this process.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::block::{Geometry, Group, Membership, Position};
#[cfg(feature = "redis")]
use super::lengths::BLOCK_LEN;
use crate::id::Digest;

/// Ids whose blocks are fetched at once, at most. Their positions fit the innermost cache.
const FETCHED: usize = 64;

/// How many blocks are counted, at least and at most, to tell how full a filter is. Of the fewest, the rate is as often twice what
/// it is of all as five standard deviations are met.
const COUNTED: RangeInclusive<usize> = 64..=256;

/// The bits of a filter in memory, to be filled and asked by any number of threads at once.
///
/// All accesses are relaxed. Bits only ever turn on, no bit says anything about another, and whoever
/// must see an insert has been told of it by other means (an acknowledgement, a join), which orders
/// the two. A look-up that races an insert may see half of it and say [`Membership::Never`]: that
/// insert has not returned yet.
pub(crate) struct Filter {
    /// Where ids go in this filter.
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

    /// Puts many ids into a filter that no other thread has. A large filter is in no near cache: blocks are
    /// fetched many at a time, also a shard's few of a batch, and bits need no lock.
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
        let word = |word: usize| words[word].load(Ordering::Relaxed);
        // Decided once a group: an absent id's bit is as likely set as not, which no processor foresees.
        let all_set = |group: Group| {
            let topmost = group.fold(u64::MAX, |all, bit| all & bit.topmost(word));
            topmost >> 63 == 1
        };
        if groups.all(all_set) { Membership::Possible } else { Membership::Never }
    }

    /// Returns the false-positive rate by the bits that are set now, as some of the blocks show it: the mean of the chance that all
    /// bits of an absent id are set in a block. A filter of few blocks shows none.
    pub(crate) fn rate(&self) -> Option<f64> {
        let counted = &self.blocks[..self.blocks.len().min(*COUNTED.end())];
        let set = |Block(words): &Block| {
            let words = words.iter().map(|word| word.load(Ordering::Relaxed));
            words.map(u64::count_ones).sum::<u32>()
        };
        let hit = |block| (f64::from(set(block)) / 512.0).powi(self.geometry.hashes.into());
        let mean = counted.iter().map(hit).sum::<f64>() / counted.len() as f64;
        COUNTED.contains(&counted.len()).then_some(mean)
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
    fn the_rate_follows_the_ids_that_are_there() {
        for rate in [0.03, 1e-3, 1e-5] {
            let sizing = Sizing::new(100_000, rate).unwrap();
            let filter = Filter::new(sizing.geometry(1));
            for (ids, n) in [(0..100_000, 100_000), (100_000..200_000, 200_000)] {
                ids.map(digest).for_each(|digest| filter.insert(&digest));
                let (shown, expected) = (filter.rate().unwrap(), sizing.expected_rate(n));
                assert!((0.6..1.6).contains(&(shown / expected)), "{n}: {shown}, not {expected}");
            }
        }
        assert_eq!(Filter::new(Sizing::new(100, 0.01).unwrap().geometry(1)).rate(), None);
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
