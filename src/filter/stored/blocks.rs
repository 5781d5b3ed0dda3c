//! The stored bytes of a filter's blocks.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::filter::lengths::BLOCK_LEN;
use crate::filter::memory::Filter;

// Each of these panics if the range is not within the filter's blocks.
impl Filter {
    pub(crate) fn ones_in(&self, blocks: Range<u32>) -> u64 {
        self.words(blocks).map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// Appends the stored bytes of these blocks. They are at `FRONT_LEN + blocks.start · BLOCK_LEN` in the string.
    pub(crate) fn write_blocks(&self, blocks: Range<u32>, out: &mut Vec<u8>) {
        out.reserve(blocks.len() * BLOCK_LEN);
        for word in self.words(blocks) {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
        }
    }

    /// Overwrites these blocks with their stored bytes; does nothing if the length is another.
    pub(crate) fn read_blocks(&self, blocks: Range<u32>, bytes: &[u8]) -> Option<()> {
        if bytes.len() != blocks.len() * BLOCK_LEN {
            return None;
        }
        for (word, bytes) in self.words(blocks).zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_be_bytes(*bytes), Ordering::Relaxed);
        }
        Some(())
    }

    fn words(&self, blocks: Range<u32>) -> impl Iterator<Item = &AtomicU64> {
        self.blocks[blocks.start as usize..blocks.end as usize].iter().flat_map(|block| &block.0)
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
        let read = Filter::new(geometry);
        for from in (0..geometry.blocks).step_by(7) {
            let mut bytes = Vec::new();
            let blocks = from..geometry.blocks.min(from + 7);
            written.write_blocks(blocks.clone(), &mut bytes);
            let one_more = [&bytes[..], &[0; BLOCK_LEN]].concat();
            for other in [&bytes[1..], &bytes[BLOCK_LEN..], &one_more] {
                assert!(read.read_blocks(blocks.clone(), other).is_none());
            }
            read.read_blocks(blocks, &bytes).unwrap();
        }
        let bytes = |filter: &Filter| {
            let mut bytes = Vec::new();
            filter.write_blocks(0..geometry.blocks, &mut bytes);
            bytes
        };
        assert_eq!(bytes(&read), bytes(&written));
    }
}
