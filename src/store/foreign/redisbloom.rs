//! `RedisBloom`, and what speaks its commands: Redis 8, Redis Stack, Valkey with its module. The module hashes the ids itself.

use ::redis::{Cmd, cmd};

use super::filter::{ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Extent, Layout};
use crate::error::StoreError;
use crate::store::link::reply::{Reply, odd};

#[derive(Debug)]
struct RedisBloom;

impl ForeignFilter {
    /// A filter of `RedisBloom`, made with `BF.RESERVE key rate capacity`, or by the first `BF.ADD`: of Redis 8, Redis
    /// Stack or Valkey's module.
    ///
    /// The guard never creates one: inserts fail where there is none. While it is full, and its next insert may find no room,
    /// answers are [`Refusal::FULL`](crate::Refusal::FULL) and nothing is refused.
    #[must_use]
    pub fn redisbloom(key: &str) -> Self {
        // The module has the number of bits; its answer is one bit an id.
        let size = BloomSize { bits: 0, hashes: 1 };
        Self::new("RedisBloom", key, Numbers::Given(size), RedisBloom)
    }
}

impl Layout for RedisBloom {
    fn bits(&self, _: BloomSize, _: &[u8]) -> Bits {
        Bits::new()
    }

    fn add(&self, _: BloomSize, key: &str, ids: &[&[u8]]) -> Vec<Cmd> {
        vec![cmd("BF.INSERT").arg(key).arg("NOCREATE").arg("ITEMS").arg(ids).clone()]
    }

    fn ask(&self, _: BloomSize, key: &str, ids: &[&[u8]]) -> Cmd {
        cmd("BF.MEXISTS").arg(key).arg(ids).clone()
    }

    fn measure(&self, key: &str) -> Cmd {
        cmd("BF.INFO").arg(key).clone()
    }

    fn extent(&self, reply: Reply) -> Result<Extent, StoreError> {
        let (mut capacity, mut bytes, mut ids) = (None, None, None);
        for [name, value] in reply.pairs()? {
            match name.text()?.as_str() {
                "Capacity" => capacity = Some(value.count()?),
                "Size" => bytes = Some(value.count()?),
                "Number of items inserted" => ids = Some(value.count()?),
                _ => {}
            }
        }
        let (Some(capacity), Some(bytes), Some(ids)) = (capacity, bytes, ids) else {
            return Err(odd("BF.INFO", "a field missing"));
        };
        Ok(Extent::Module { bytes, ids, capacity })
    }
}
