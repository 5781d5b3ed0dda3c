//! `RedisBloom`, and what speaks its commands: Redis 8, Redis Stack, Valkey with its module. The ids are sent as they are.

use ::redis::Cmd;

use super::filter::ForeignFilter;
use super::layout::{Layout, Place};
use super::module;
use super::size::BloomSize;

#[derive(Debug)]
struct RedisBloom {
    key: String,
}

impl ForeignFilter {
    /// A filter of `RedisBloom`, made with `BF.RESERVE key rate capacity`, or by the first `BF.ADD`. The guard never
    /// creates it.
    #[must_use]
    pub fn redisbloom(key: &str) -> Self {
        Self::module(RedisBloom { key: key.to_owned() })
    }
}

impl Layout for RedisBloom {
    fn describe(&self) -> String {
        format!("RedisBloom {:?}", self.key)
    }

    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, self.key.clone())]
    }

    fn size(&self, _: &[Option<Vec<u8>>]) -> Result<BloomSize, String> {
        Ok(BloomSize::new(0, 0))
    }

    fn place(&self, _: BloomSize, id: &[u8]) -> Place {
        Place { key: 0, bits: [].into_iter().collect(), id: id.into() }
    }

    fn add(&self, _: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        vec![module::insert(key, places.iter().map(|place| &place.id))]
    }
}
