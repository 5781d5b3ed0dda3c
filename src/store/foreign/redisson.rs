//! Redisson's `RBloomFilter`, since 3.6.0 and 2.11.0: `HighwayHash`, and the numbers in a hash beside the bits.

use highway::{HighwayHash as _, HighwayHasher, Key};

use super::filter::ForeignFilter;
use super::layout::{Layout, Numbers, Place, beside, numbers};
use super::size::BloomSize;

/// What Redisson's own sizing allows, and what its smallest rate needs.
const MOST: [(&str, u64); 2] = [("size", 4_294_967_294), ("hashIterations", 1_074)];

#[derive(Debug)]
struct Redisson {
    name: String,
}

impl ForeignFilter {
    /// A filter of Redisson, from `getBloomFilter(name, StringCodec.INSTANCE)`. Its size is read from Redis.
    ///
    /// The codec has to write plain text, as `StringCodec`, `LongCodec` and `IntegerCodec` do. Redisson's default codec
    /// serialises objects, which no other program can hash. Under a changed config, answers are unknown and inserts fail.
    #[must_use]
    pub fn redisson(name: &str) -> Self {
        Self::new(Redisson { name: name.to_owned() })
    }
}

impl Layout for Redisson {
    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, self.name.clone())]
    }

    fn config(&self) -> Option<(String, &'static [&'static str])> {
        let fields = &["size", "hashIterations", "expectedInsertions", "falseProbability"];
        Some((beside(&self.name, "config"), fields))
    }

    fn size(&self, config: &Numbers) -> Result<BloomSize, String> {
        numbers(MOST, config)
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let (h1, h2) = highway(id);
        let mut hash = h1;
        Place::in_only((0..size.hashes).map(|number| {
            let bit = (hash & (u64::MAX >> 1)) % size.bits;
            hash = hash.wrapping_add(if number % 2 == 0 { h2 } else { h1 });
            bit
        }))
    }
}

/// Returns the two halves of `HighwayHash`-128 under Redisson's key.
fn highway(bytes: &[u8]) -> (u64, u64) {
    const KEY: Key = Key([
        0x9e37_79b9_7f4a_7c15,
        0xf39c_c060_5ced_c834,
        0x1082_276b_f3a2_7251,
        0xf86c_6a11_d0c1_8e95,
    ]);
    let [h1, h2] = HighwayHasher::new(KEY).hash128(bytes);
    (h1, h2)
}
