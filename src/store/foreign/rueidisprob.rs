//! rueidisprob's `BloomFilter`: double hashing with `MurmurHash3`, and a counter beside the bits.

use ::redis::{Cmd, cmd};

use super::filter::ForeignFilter;
use super::layout::{Layout, MOST_BITS, Numbers, Place, all_bits, murmur3};
use super::size::BloomSize;

#[derive(Debug)]
struct Rueidisprob {
    name: String,
    size: BloomSize,
}

impl ForeignFilter {
    /// A filter of rueidisprob, made with `NewBloomFilter(client, name, ids, rate)`. Its counting and its sliding filters
    /// clear bits, and cannot be guarded. At a rate over 0.7 it sets no bits, and all ids are present.
    #[must_use]
    pub fn rueidisprob(name: &str, ids: u64, rate: f64) -> Self {
        let size = BloomSize::rueidisprob(ids, rate);
        Self::new(Rueidisprob { name: name.to_owned(), size })
            .rated("rueidisprob", ids, rate)
            .bounded("bits of rueidisprob", size.bits, 1, MOST_BITS)
    }
}

impl Layout for Rueidisprob {
    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, format!("{{{}}}", self.name))]
    }

    fn size(&self, _: &Numbers) -> Result<BloomSize, String> {
        Ok(self.size)
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let (h1, h2) = murmur3(id);
        let bit = |number| h1.wrapping_add(u64::from(number).wrapping_mul(h2)) % size.bits;
        Place::in_only((0..size.hashes).map(bit))
    }

    fn add(&self, size: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        let counter = format!("{{{}}}:c", self.name);
        let mut script = cmd("EVAL");
        script.arg(include_str!("rueidisprob.lua")).arg(2).arg(key).arg(counter).arg(size.hashes);
        vec![script.arg(all_bits(places)).clone()]
    }
}
