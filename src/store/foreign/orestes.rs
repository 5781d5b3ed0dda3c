//! Orestes' Bloom filter on Redis, with its default hash, and the numbers in a hash beside the bits.

use std::io::Cursor;

use super::filter::{Config, ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Layout};

#[derive(Debug)]
struct Orestes;

impl ForeignFilter {
    /// A filter of Orestes, `BloomFilterRedis` with the default hash method. Its size is read from Redis. Its counting
    /// filters clear bits, and cannot be guarded.
    #[must_use]
    pub fn orestes(name: &str) -> Self {
        let config = Config {
            key: name.to_owned(),
            sizes: [("m", i32::MAX as u64), ("k", 1_074)],
            method: Some(("hashmethod", "Murmur3KirschMitzenmacher")),
        };
        Self::new("Orestes", format!("{name}:bits"), Numbers::InHash(config), Orestes)
    }
}

impl Layout for Orestes {
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        let murmur = |seed| murmur3::murmur3_32(&mut Cursor::new(id), seed).unwrap_or_default();
        let one = murmur(0);
        let (one, other) = (u64::from(one), u64::from(murmur(one)));
        (0..size.hashes).map(|number| (one + u64::from(number) * other) % size.bits).collect()
    }
}
