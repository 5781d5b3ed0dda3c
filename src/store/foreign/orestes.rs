//! Orestes' Bloom filter on Redis, with its default hash, and the numbers in a hash beside the bits.

use std::io::Cursor;

use ::redis::Cmd;

use super::layout::{BitsKey, Config, ForeignFilter, Layout, Place, number, set_bits_if_sized};
use super::size::BloomSize;

const MOST: (u64, u64) = (i32::MAX as u64, 1_074);
const METHOD: &str = "Murmur3KirschMitzenmacher";

#[derive(Debug)]
struct Orestes {
    name: String,
}

impl ForeignFilter {
    /// A filter of Orestes, `BloomFilterRedis` with the default hash method. Its size is read from Redis. Its counting
    /// filters clear bits, and cannot be guarded.
    #[must_use]
    pub fn orestes(name: &str) -> Self {
        Self::new(Orestes { name: name.to_owned() })
    }
}

impl Layout for Orestes {
    fn describe(&self) -> String {
        format!("Orestes {:?}", self.name)
    }

    fn keys(&self) -> Vec<BitsKey> {
        BitsKey::only(&format!("{}:bits", self.name))
    }

    fn config(&self) -> Option<Config> {
        Some(Config { key: self.name.clone(), fields: &["m", "k", "hashmethod"] })
    }

    fn size(&self, config: &[Option<Vec<u8>>]) -> Result<BloomSize, String> {
        let [bits, hashes, method] = config else { return Err("no config was read".to_owned()) };
        if method.as_deref() != Some(METHOD.as_bytes()) {
            return Err(format!("its hash method is not {METHOD}"));
        }
        let bits = number("m", bits.as_deref(), MOST.0)?;
        let hashes = number("k", hashes.as_deref(), MOST.1)?;
        Ok(BloomSize::new(bits, hashes as u32))
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let murmur = |seed| murmur3::murmur3_32(&mut Cursor::new(id), seed).unwrap_or_default();
        let one = murmur(0);
        let (one, other) = (u64::from(one), u64::from(murmur(one)));
        Place::in_only((0..size.hashes).map(|number| (one + u64::from(number) * other) % size.bits))
    }

    fn add(&self, size: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        set_bits_if_sized(&self.name, ["m", "k"], size, key, places)
    }
}
