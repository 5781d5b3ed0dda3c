//! The stored bytes of a filter's blocks.

use std::array;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::filter::block::Geometry;
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::memory::{Block, Filter};

impl Filter {
    /// Returns how many bits are set in these blocks.
    ///
    /// # Panics
    ///
    /// When the range is not within the filter's blocks.
    pub(crate) fn ones_in(&self, blocks: Range<u32>) -> u64 {
        self.range(blocks).iter().map(Block::ones).sum()
    }

    /// Appends the stored bytes of these blocks: what belongs at
    /// `FRONT_LEN + blocks.start · BLOCK_LEN` in the string.
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
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: Vec::with_capacity(geometry.blocks as usize) }
    }

    pub(crate) const fn next(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(crate) const fn rest(&self) -> u32 {
        self.geometry.blocks - self.next()
    }

    /// Takes in the next blocks: some, whole ones, and no more than are left.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Option<()> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
        let fits = (1..=self.rest() as usize).contains(&blocks.len()) && rest.is_empty();
        fits.then(|| self.blocks.extend(blocks.iter().map(Block::from_bytes)))
    }

    pub(crate) fn filter(self) -> Option<Filter> {
        let Self { geometry, blocks } = self;
        (blocks.len() == geometry.blocks as usize)
            .then(|| Filter { geometry, blocks: blocks.into_boxed_slice() })
    }
}

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
    use super::*;
    use crate::filter::Sizing;
    use crate::id::Digest;

    #[test]
    fn a_filter_that_was_read_is_the_one_that_was_written() {
        let geometry = Sizing::new(4000, 0.001).unwrap().geometry(1);
        let written = Filter::new(geometry);
        let digest = |n: u128| Digest::from_bytes(n.wrapping_mul(u128::MAX / 997).to_be_bytes());
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
            filter.write_blocks(0..geometry.blocks, &mut bytes);
            bytes
        };
        assert_eq!(bytes(&read), bytes(&written));
        assert!(FilterReader::new(geometry).filter().is_none());
    }
}
