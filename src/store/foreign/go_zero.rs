//! go-zero's `core/bloom`: 14 bits for each id, each by a hash of its own.

use super::filter::ForeignFilter;
use super::layout::{Layout, MOST_BITS, Numbers, Place, murmur3};
use super::size::BloomSize;

const HASHES: u32 = 14;

#[derive(Debug)]
struct GoZero {
    key: String,
    bits: u64,
}

impl ForeignFilter {
    /// A filter of go-zero, made with `bloom.New(store, key, bits)`. go-zero advises 20 bits for each id.
    #[must_use]
    pub fn go_zero(key: &str, bits: u64) -> Self {
        let filter = Self::new(GoZero { key: key.to_owned(), bits });
        filter.bounded("bits of go_zero", bits, 1, MOST_BITS)
    }
}

impl Layout for GoZero {
    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, self.key.clone())]
    }

    fn size(&self, _: &Numbers) -> Result<BloomSize, String> {
        Ok(BloomSize { bits: self.bits, hashes: HASHES })
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let mut numbered = [id, &[0]].concat();
        Place::in_only((0..HASHES as u8).map(|number| {
            numbered[id.len()] = number;
            murmur3(&numbered).0 % size.bits
        }))
    }
}
