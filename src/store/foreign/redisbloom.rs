//! `RedisBloom`, and what speaks its commands: Redis 8, Redis Stack, Valkey with its module. The ids are sent as they are.

use ::redis::{Cmd, cmd};

use super::layout::{BitsKey, ForeignFilter, Layout, Place};
use super::module;
use super::size::BloomSize;

#[derive(Debug)]
struct RedisBloom {
    key: String,
    /// The ids and the rate that a rebuild makes it for.
    made_for: Option<(u64, f64)>,
}

impl ForeignFilter {
    /// A filter of `RedisBloom`, made with `BF.RESERVE key rate capacity`, or by the first `BF.ADD`. The guard never
    /// creates it.
    #[must_use]
    pub fn redisbloom(key: &str) -> Self {
        Self::new(RedisBloom { key: key.to_owned(), made_for: None })
    }

    /// A filter of `RedisBloom` that a rebuild makes for so many ids, and its seal, at a rate with `BF.RESERVE`:
    /// [`sole_writer`](Self::sole_writer).
    #[must_use]
    pub fn redisbloom_reserved(key: &str, ids: u64, rate: f64) -> Self {
        Self::new(RedisBloom { key: key.to_owned(), made_for: Some((ids, rate)) }).rated(
            "redisbloom_reserved",
            ids,
            rate,
        )
    }
}

impl Layout for RedisBloom {
    fn describe(&self) -> String {
        format!("RedisBloom {:?}", self.key)
    }

    fn keys(&self) -> Vec<BitsKey> {
        BitsKey::only(&self.key)
    }

    fn is_module(&self) -> bool {
        true
    }

    fn size(&self, _: &[Option<Vec<u8>>]) -> Result<BloomSize, String> {
        Ok(BloomSize::new(0, 0))
    }

    fn place(&self, _: BloomSize, id: &[u8]) -> Place {
        Place { key: 0, bits: [].into_iter().collect(), id: id.into() }
    }

    fn add(&self, _: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        self.fill(key, places)
    }

    fn make(&self, key: &str) -> Result<Vec<Cmd>, String> {
        let (ids, rate) =
            self.made_for.ok_or("how large to make it is not known: see redisbloom_reserved")?;
        let ids = ids.saturating_add(2 * module::SEALED);
        Ok(vec![cmd("BF.RESERVE").arg(key).arg(rate).arg(ids).clone()])
    }

    fn fill(&self, key: &str, places: &[Place]) -> Vec<Cmd> {
        vec![module::insert(key, places.iter().map(|place| &place.id))]
    }
}
