//! A filter's bits in this process.

use std::array;
use std::fmt;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::block::{Geometry, Group, Membership, Position};
use super::format::BLOCK_LEN;
use crate::id::Digest;

/// Ids whose blocks are fetched at once, at most. Their positions fit the innermost cache.
const FETCHED: usize = 64;

/// The bits of a filter in memory, to be filled and asked by any number of threads at once.
///
/// All accesses are relaxed. Bits only ever turn on, no bit says anything about another, and whoever
/// must see an insert has been told of it by other means (an acknowledgement, a join), which orders
/// the two. A look-up that races an insert may see half of it and say [`Membership::Never`]: that
/// insert has not returned yet.
pub(crate) struct Filter {
    geometry: Geometry,
    blocks: Box<[Block]>,
}

impl Filter {
    /// Returns an empty filter.
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: (0..geometry.blocks()).map(|_| Block::default()).collect() }
    }

    /// Puts an id into the filter.
    pub(crate) fn insert(&self, digest: &Digest) {
        let position = self.geometry.position(digest);
        for (word, mask) in self.block(&position).0.iter().zip(position.mask()) {
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
            let fetched = positions.iter().map(|position| *self.block_mut(position).0[0].get_mut());
            black_box(fetched.fold(0, |all, word| all ^ word));
            positions.iter().for_each(|position| self.set(position));
        }
    }

    /// Returns what the filter says of an id.
    pub(crate) fn lookup(&self, digest: &Digest) -> Membership {
        let (block, mut groups) = self.geometry.bits(digest);
        let words = &self.blocks[block as usize].0;
        let word = |word: usize| words[word].load(Ordering::Relaxed);
        // Decided once a group: an absent id's bit is as likely set as not, which no processor foresees.
        let all_set = |group: Group| {
            let topmost = group.fold(u64::MAX, |all, bit| all & bit.topmost(word));
            topmost >> 63 == 1
        };
        Membership::possible_if(groups.all(all_set))
    }

    /// Returns where ids go in this filter.
    pub(crate) const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the size of the blocks in bytes.
    pub(crate) const fn byte_len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }

    /// Returns how many bits are set in these blocks.
    ///
    /// # Panics
    ///
    /// When the range is not within the filter's blocks.
    pub(crate) fn ones_in(&self, blocks: Range<u32>) -> u64 {
        self.range(blocks).iter().map(Block::ones).sum()
    }

    /// Appends the stored bytes of these blocks: what belongs at
    /// `HEADER_LEN + blocks.start · BLOCK_LEN` in the string.
    ///
    /// # Panics
    ///
    /// When the range is not within the filter's blocks.
    pub(crate) fn write_blocks(&self, blocks: Range<u32>, out: &mut Vec<u8>) {
        let blocks = self.range(blocks);
        out.reserve(blocks.len() * BLOCK_LEN);
        let words = blocks.iter().flat_map(Block::words);
        words.for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    }

    fn block(&self, position: &Position) -> &Block {
        &self.blocks[position.block() as usize]
    }

    fn block_mut(&mut self, position: &Position) -> &mut Block {
        &mut self.blocks[position.block() as usize]
    }

    fn set(&mut self, position: &Position) {
        for (word, mask) in self.block_mut(position).0.iter_mut().zip(position.mask()) {
            *word.get_mut() |= mask;
        }
    }

    fn range(&self, blocks: Range<u32>) -> &[Block] {
        &self.blocks[blocks.start as usize..blocks.end as usize]
    }
}

/// A filter that is read from its stored bytes, some blocks at a time.
pub(crate) struct FilterReader {
    geometry: Geometry,
    blocks: Vec<Block>,
}

impl FilterReader {
    /// Returns a reader that has no block yet.
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: Vec::with_capacity(geometry.blocks() as usize) }
    }

    /// Returns which block is the next.
    pub(crate) const fn next(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Returns how many blocks are left.
    pub(crate) const fn rest(&self) -> u32 {
        self.geometry.blocks() - self.next()
    }

    /// Takes in the next blocks: some, whole ones, and no more than are left.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Option<()> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
        let fits = (1..=self.rest() as usize).contains(&blocks.len()) && rest.is_empty();
        fits.then(|| self.blocks.extend(blocks.iter().map(Block::from_bytes)))
    }

    /// Returns the filter, if all of its blocks are there.
    pub(crate) fn filter(self) -> Option<Filter> {
        let Self { geometry, blocks } = self;
        (blocks.len() == geometry.blocks() as usize)
            .then(|| Filter { geometry, blocks: blocks.into_boxed_slice() })
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

/// One block. The alignment keeps it within one cache line, which is what blocks are for.
#[derive(Default)]
#[repr(align(64))]
struct Block([AtomicU64; 8]);

impl Block {
    fn from_bytes(bytes: &[u8; BLOCK_LEN]) -> Self {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        Self(array::from_fn(|_| AtomicU64::new(words.next().unwrap_or_default())))
    }

    fn words(&self) -> [u64; 8] {
        std::array::from_fn(|w| self.0[w].load(Ordering::Relaxed))
    }

    fn ones(&self) -> u64 {
        self.words().iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

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
    fn a_filter_that_was_read_is_the_one_that_was_written() {
        let geometry = Sizing::new(4000, 0.001).unwrap().geometry(1);
        let written = Filter::new(geometry);
        (0..4000).for_each(|n| written.insert(&digest(n)));
        let mut reader = FilterReader::new(geometry);
        while reader.rest() > 0 {
            let mut bytes = Vec::new();
            let end = reader.next() + reader.rest().min(7);
            written.write_blocks(reader.next()..end, &mut bytes);
            // Half a block, none, and more than there are.
            assert!(reader.read(&bytes[1..]).is_none() && reader.read(&[]).is_none());
            assert!(reader.read(&vec![0; (reader.rest() as usize + 1) * BLOCK_LEN]).is_none());
            reader.read(&bytes).unwrap();
        }
        let read = reader.filter().unwrap();
        let bytes = |filter: &Filter| {
            let mut bytes = Vec::new();
            filter.write_blocks(0..geometry.blocks(), &mut bytes);
            bytes
        };
        assert_eq!(bytes(&read), bytes(&written));
        assert!(FilterReader::new(geometry).filter().is_none());
    }

    #[test]
    fn ids_put_in_together_are_as_those_put_in_one_by_one() {
        let geometry = Sizing::new(4000, 0.001).unwrap().geometry(1);
        for count in [0, 1, FETCHED, FETCHED + 1, 4000] {
            let digests: Vec<Digest> = (0..count as u64).map(digest).collect();
            let (one_by_one, mut together) = (Filter::new(geometry), Filter::new(geometry));
            digests.iter().for_each(|digest| one_by_one.insert(digest));
            together.insert_all(&digests);
            let bytes = |filter: &Filter| {
                let mut bytes = Vec::new();
                filter.write_blocks(0..geometry.blocks(), &mut bytes);
                bytes
            };
            assert_eq!(bytes(&together), bytes(&one_by_one), "{count}");
        }
    }
}
