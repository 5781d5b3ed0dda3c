//! rueidisprob's `BloomFilter`: double hashing with `MurmurHash3`, and a counter beside the bits.

use ::redis::{Cmd, cmd};

use super::filter::{ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Layout, MOST_BITS, double_hashes, optimum, per_id};

#[derive(Debug)]
struct Rueidisprob;

impl ForeignFilter {
    /// A filter of rueidisprob, made with `NewBloomFilter(client, name, ids, rate)`. Its counting and its sliding filters
    /// clear bits, and cannot be guarded. At a rate over 0.7 it sets no bits, and all ids are present.
    #[must_use]
    pub fn rueidisprob(name: &str, ids: u64, rate: f64) -> Self {
        let bits = optimum(ids, rate).ceil() as u64;
        let size = BloomSize { bits, hashes: per_id(bits, ids).round() as u32 };
        Self::new("rueidisprob", format!("{{{name}}}"), Numbers::Given(size), Rueidisprob)
            .rated("rueidisprob", ids, rate)
            .bounded("bits of rueidisprob", bits, 1, MOST_BITS)
    }
}

impl Layout for Rueidisprob {
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        double_hashes(id, size.hashes).map(|hash| hash % size.bits).collect()
    }

    fn add(&self, size: BloomSize, key: &str, ids: &[&[u8]]) -> Vec<Cmd> {
        let mut script = cmd("EVAL");
        script.arg(include_str!("rueidisprob.lua")).arg(2).arg(key).arg(format!("{key}:c"));
        let bits: Vec<u64> = ids.iter().flat_map(|id| self.bits(size, id)).collect();
        vec![script.arg(size.hashes).arg(bits).clone()]
    }
}
