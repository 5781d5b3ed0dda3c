//! Orestes' Bloom filter on Redis, with its default hash, and the numbers in a hash beside the bits.

use std::io::Cursor;

use super::filter::ForeignFilter;
use super::layout::{Layout, Numbers, Place, numbers};
use super::size::BloomSize;

const MOST: [(&str, u64); 2] = [("m", i32::MAX as u64), ("k", 1_074)];
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
    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, format!("{}:bits", self.name))]
    }

    fn config(&self) -> Option<(String, &'static [&'static str])> {
        Some((self.name.clone(), &["m", "k", "hashmethod"]))
    }

    fn size(&self, config: &Numbers) -> Result<BloomSize, String> {
        if config.get(2).and_then(Option::as_deref) != Some(METHOD.as_bytes()) {
            return Err(format!("its hash method is not {METHOD}"));
        }
        numbers(MOST, config)
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let murmur = |seed| murmur3::murmur3_32(&mut Cursor::new(id), seed).unwrap_or_default();
        let one = murmur(0);
        let (one, other) = (u64::from(one), u64::from(murmur(one)));
        Place::in_only((0..size.hashes).map(|number| (one + u64::from(number) * other) % size.bits))
    }
}
