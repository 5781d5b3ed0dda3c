//! go-zero's `core/bloom`: 14 bits for each id, each by a hash of its own.

use super::filter::{ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Layout, MOST_BITS, murmur3};

const HASHES: u32 = 14;

#[derive(Debug)]
struct GoZero;

impl ForeignFilter {
    /// A filter of go-zero, made with `bloom.New(store, key, bits)`. go-zero advises 20 bits for each id.
    #[must_use]
    pub fn go_zero(key: &str, bits: u64) -> Self {
        let size = BloomSize { bits, hashes: HASHES };
        let filter = Self::new("go-zero", key, Numbers::Given(size), GoZero);
        filter.bounded("bits of go_zero", bits, 1, MOST_BITS)
    }
}

impl Layout for GoZero {
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        let mut numbered = [id, &[0]].concat();
        let bit = |number| {
            numbered[id.len()] = number;
            murmur3(&numbered).0 % size.bits
        };
        (0..HASHES as u8).map(bit).collect()
    }
}
