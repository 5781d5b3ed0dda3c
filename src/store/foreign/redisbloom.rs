//! `RedisBloom`, and what speaks its commands: Redis 8, Redis Stack, Valkey with its module. The ids are sent as they are.

use ::redis::Cmd;

use super::filter::ForeignFilter;
use super::layout::{Kind, Layout, Place};
use super::module;
use super::size::BloomSize;

#[derive(Debug)]
struct RedisBloom {
    key: String,
}

impl ForeignFilter {
    /// A filter of `RedisBloom`, made with `BF.RESERVE key rate capacity`, or by the first `BF.ADD`: of Redis 8, Redis
    /// Stack or Valkey's module.
    ///
    /// | what | what follows |
    /// |---|---|
    /// | no filter at the key | inserts fail: the guard never creates one |
    /// | the server has no such module | [`Doubt::Unsupported`](crate::Doubt::Unsupported): nothing is refused, `inspect` and inserts fail |
    /// | the seal is 16 ids of the guard's own | [`inspect`](crate::ForeignHandle::inspect) inserts them where the filter is not trusted, once a process and a loss. `BF.CARD` counts them |
    /// | less room than for 32 ids | it cannot be trusted. One that scales can after it has grown |
    /// | `NONSCALING`, and full | [`Doubt::Full`](crate::Doubt::Full): inserts fail, those of other programs too, so nothing is refused. It needs a larger filter |
    /// | `EXPANSION`, and full | `Doubt::Full`, until the next insert has made a new part. Redis may lack the memory for it |
    /// | fewer than 2.88 bits an id, as for a rate over 0.25 | it cannot be trusted: 16 ids may be in it by chance. Where it took a trusted one's place, nothing is refused |
    /// | `BF.LOADCHUNK` into the guarded key | ids that are not loaded yet may be refused. Load it under another name, then `RENAME` |
    #[must_use]
    pub fn redisbloom(key: &str) -> Self {
        Self::new(RedisBloom { key: key.to_owned() })
    }
}

impl Layout for RedisBloom {
    fn describe(&self) -> String {
        format!("RedisBloom {:?}", self.key)
    }

    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, self.key.clone())]
    }

    fn kind(&self) -> Kind {
        Kind::Module
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
