//! Redisson's `RBloomFilter`, since 3.6.0 and 2.11.0: `HighwayHash`, and the numbers in a hash beside the bits.

use ::redis::Cmd;

use super::hash::highway;
use super::layout::{BitsKey, Config, ForeignFilter, Layout, Place, number, set_bits_if_sized};
use super::size::BloomSize;

/// What Redisson's own sizing allows, and what its smallest rate needs.
const MOST: (u64, u64) = (4_294_967_294, 1_074);

#[derive(Debug)]
struct Redisson {
    name: String,
}

impl ForeignFilter {
    /// A filter of Redisson, from `getBloomFilter(name, StringCodec.INSTANCE)`. Its size is read from Redis.
    ///
    /// The codec has to write plain text, as `StringCodec`, `LongCodec` and `IntegerCodec` do. Redisson's default codec
    /// serialises objects, which no other program can hash.
    #[must_use]
    pub fn redisson(name: &str) -> Self {
        Self::new(Redisson { name: name.to_owned() })
    }
}

impl Redisson {
    fn config_key(&self) -> String {
        if self.name.contains('{') {
            return format!("{}:config", self.name);
        }
        format!("{{{}}}:config", self.name)
    }
}

impl Layout for Redisson {
    fn describe(&self) -> String {
        format!("Redisson {:?}", self.name)
    }

    fn keys(&self) -> Vec<BitsKey> {
        BitsKey::only(&self.name)
    }

    fn config(&self) -> Option<Config> {
        let fields = &["size", "hashIterations", "expectedInsertions", "falseProbability"];
        Some(Config { key: self.config_key(), fields })
    }

    fn size(&self, config: &[Option<Vec<u8>>]) -> Result<BloomSize, String> {
        let [size, hashes, ..] = config else { return Err("no config was read".to_owned()) };
        let bits = number("size", size.as_deref(), MOST.0)?;
        let hashes = number("hashIterations", hashes.as_deref(), MOST.1)?;
        Ok(BloomSize::new(bits, hashes as u32))
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

    /// In one script with a look at the numbers, as Redisson itself does: under others the bits would be elsewhere.
    fn add(&self, size: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        set_bits_if_sized(&self.config_key(), ["size", "hashIterations"], size, key, places)
    }
}
