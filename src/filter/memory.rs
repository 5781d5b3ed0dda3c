//! A filter's bits in this process.

use std::array;
use std::fmt;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::{Geometry, Group, Membership, Position};
use super::format::{BLOCK_LEN, FormatError};
use super::rate::load_of_fill;
use crate::Digest;

/// Ids whose blocks are fetched at once. Their positions fit the innermost cache.
const FETCHED: usize = 64;

/// The bits of a filter in memory, to be filled and asked by any number of threads at once.
///
/// All accesses are relaxed. Bits only ever turn on, no bit says anything about another, and whoever
/// must see an insert has been told of it by other means (an acknowledgement, a join), which orders
/// the two. A look-up that races an insert may see half of it and say [`Membership::Never`]: that
/// insert has not returned yet.
pub struct Filter {
    geometry: Geometry,
    blocks: Box<[Block]>,
}

impl Filter {
    /// Returns an empty filter.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: (0..geometry.blocks()).map(|_| Block::default()).collect() }
    }

    /// Returns the filter with these blocks, as they are stored between header and trailer.
    ///
    /// # Errors
    ///
    /// [`FormatError::Length`] when the bytes are not as many as the geometry's blocks.
    pub fn load(geometry: Geometry, bytes: &[u8]) -> Result<Self, FormatError> {
        let (blocks, rest) = bytes.as_chunks();
        if !rest.is_empty() || blocks.len() as u64 != u64::from(geometry.blocks()) {
            let expected = u64::from(geometry.blocks()) * BLOCK_LEN as u64;
            return Err(FormatError::Length { len: bytes.len() as u64, expected });
        }
        Ok(Self { geometry, blocks: blocks.iter().map(Block::from_bytes).collect() })
    }

    /// Puts an id into the filter.
    pub fn insert(&self, digest: &Digest) {
        let position = self.geometry.position(digest);
        for (word, mask) in self.block(&position).0.iter().zip(position.mask()) {
            if *mask != 0 {
                word.fetch_or(*mask, Ordering::Relaxed);
            }
        }
    }

    /// Puts many ids into a filter that no other thread has. A large filter is in no near cache: blocks are
    /// fetched many at a time, and bits need no lock.
    pub(crate) fn insert_all(&mut self, digests: &[Digest]) {
        let (whole, rest) = digests.as_chunks::<FETCHED>();
        for digests in whole {
            let positions: [Position; FETCHED] =
                array::from_fn(|n| self.geometry.position(&digests[n]));
            // One word brings its whole block.
            let fetched = positions.iter().map(|position| *self.block_mut(position).0[0].get_mut());
            black_box(fetched.fold(0, |all, word| all ^ word));
            positions.iter().for_each(|position| self.set(position));
        }
        rest.iter().for_each(|digest| self.set(&self.geometry.position(digest)));
    }

    /// Returns what the filter says of an id.
    #[must_use]
    pub fn lookup(&self, digest: &Digest) -> Membership {
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
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the size of the blocks in bytes.
    #[must_use]
    pub const fn byte_len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }

    /// Returns how many bits are set.
    #[must_use]
    pub fn ones(&self) -> u64 {
        self.blocks.iter().map(Block::ones).sum()
    }

    /// Returns how many bits are set in these blocks.
    ///
    /// # Panics
    ///
    /// When the range is not within the filter's blocks.
    #[must_use]
    pub fn ones_in(&self, blocks: Range<u32>) -> u64 {
        self.range(blocks).iter().map(Block::ones).sum()
    }

    /// Returns the fraction of bits that are set.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.ones() as f64 / (self.byte_len() as f64 * 8.0)
    }

    /// Returns how many distinct ids would fill the filter as it is filled: a good estimate while it
    /// holds no more than it was sized for, and `u64::MAX` when every bit is set.
    #[must_use]
    pub fn estimated_items(&self) -> u64 {
        let load = load_of_fill(self.geometry.hashes(), self.fill());
        // Infinity saturates.
        (load * f64::from(self.geometry.blocks())).round() as u64
    }

    /// Appends the stored bytes of these blocks: what belongs at
    /// `HEADER_LEN + blocks.start · BLOCK_LEN` in the string.
    ///
    /// # Panics
    ///
    /// When the range is not within the filter's blocks.
    pub fn write_blocks(&self, blocks: Range<u32>, out: &mut Vec<u8>) {
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
        let words = bytes.as_chunks().0;
        Self(std::array::from_fn(|w| AtomicU64::new(u64::from_be_bytes(words[w]))))
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
    fn bytes_of_another_length_are_no_filter() {
        let geometry = Geometry::new(2, 3, 0).unwrap();
        for len in [0, 64, 127, 129, 192] {
            let error = FormatError::Length { len: len as u64, expected: 128 };
            assert_eq!(Filter::load(geometry, &vec![0; len]).unwrap_err(), error);
        }
    }

    #[test]
    fn a_look_up_says_what_the_whole_mask_says() {
        for hashes in [1, 7, 8, 32] {
            let filter = Filter::new(Geometry::new(50, hashes, 7).unwrap());
            (0..1_000 / u64::from(hashes)).for_each(|n| filter.insert(&digest(n)));
            for digest in (0..2_000).map(digest) {
                let position = filter.geometry.position(&digest);
                let whole = position.is_in(&filter.block(&position).words());
                assert_eq!(filter.lookup(&digest), whole);
            }
        }
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

    #[test]
    fn the_fill_tells_how_many_ids_there_are() {
        let filter = Filter::new(Sizing::new(20_000, 0.001).unwrap().geometry(1));
        assert_eq!((filter.fill(), filter.estimated_items()), (0.0, 0));
        (0..20_000).chain(0..20_000).for_each(|n| filter.insert(&digest(n)));
        let estimate = filter.estimated_items();
        assert!((19_600..20_400).contains(&estimate), "{estimate}");
        let full = Filter::load(Geometry::new(1, 3, 0).unwrap(), &[0xff; 64]).unwrap();
        assert_eq!((full.fill(), full.estimated_items()), (1.0, u64::MAX));
    }
}
