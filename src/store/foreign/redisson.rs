//! Redisson's `RBloomFilter`, since 3.6.0 and 2.11.0: `HighwayHash`, and the numbers in a hash beside the bits.

use highway::{HighwayHash as _, HighwayHasher, Key};

use super::filter::{Config, ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Layout, beside};

const KEY: Key = Key([
    0x9e37_79b9_7f4a_7c15,
    0xf39c_c060_5ced_c834,
    0x1082_276b_f3a2_7251,
    0xf86c_6a11_d0c1_8e95,
]);

#[derive(Debug)]
struct Redisson;

impl ForeignFilter {
    /// A filter of Redisson, from `getBloomFilter(name, StringCodec.INSTANCE)`. Its size is read from Redis.
    ///
    /// The codec has to write plain text, as `StringCodec`, `LongCodec` and `IntegerCodec` do. Redisson's default codec
    /// serialises objects, which no other program can hash. Under a changed config, answers are unknown and inserts fail.
    #[must_use]
    pub fn redisson(name: &str) -> Self {
        let config = Config {
            key: beside(name, "config"),
            // What Redisson's own sizing allows, and what its smallest rate needs.
            sizes: [("size", 4_294_967_294), ("hashIterations", 1_074)],
            method: None,
        };
        Self::new("Redisson", name, Numbers::InHash(config), Redisson)
    }
}

impl Layout for Redisson {
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        let [h1, h2] = HighwayHasher::new(KEY).hash128(id);
        let mut hash = h1;
        let bit = |number| {
            let bit = (hash & (u64::MAX >> 1)) % size.bits;
            hash = hash.wrapping_add(if number % 2 == 0 { h2 } else { h1 });
            bit
        };
        (0..size.hashes).map(bit).collect()
    }
}
