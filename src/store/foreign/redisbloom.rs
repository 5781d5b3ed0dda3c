//! `RedisBloom`, and what speaks its commands: Redis 8, Redis Stack, Valkey with its module. The module hashes the ids itself.

use std::ops::Range;

use ::redis::{Cmd, cmd};

use super::filter::ForeignFilter;
use super::layout::{Extent, Layout, Numbers, Place, odd};
use super::size::BloomSize;
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::link::refusal::Consequences;
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

#[derive(Debug)]
struct RedisBloom {
    key: String,
}

impl ForeignFilter {
    /// A filter of `RedisBloom`, made with `BF.RESERVE key rate capacity`, or by the first `BF.ADD`: of Redis 8, Redis
    /// Stack or Valkey's module.
    ///
    /// The guard never creates one: inserts fail where there is none. While it is full, and its next insert may find no room,
    /// answers are [`Refusal::FULL`](crate::Refusal::FULL) and nothing is refused.
    #[must_use]
    pub fn redisbloom(key: &str) -> Self {
        Self::new(RedisBloom { key: key.to_owned() })
    }
}

impl Layout for RedisBloom {
    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, self.key.clone())]
    }

    fn size(&self, _: &Numbers) -> Result<BloomSize, String> {
        Ok(BloomSize { bits: 0, hashes: 0 })
    }

    fn place(&self, _: BloomSize, id: &[u8]) -> Place {
        Place { id: id.into(), ..Place::in_only([].into_iter()) }
    }

    fn add(&self, _: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        let mut command = cmd("BF.INSERT");
        command.arg(key).arg("NOCREATE").arg("ITEMS");
        vec![command.arg(places.iter().map(|place| &*place.id).collect::<Vec<_>>()).clone()]
    }

    fn added(&self, reply: Reply) -> Result<(), StoreError> {
        flags(reply).map(drop)
    }

    fn ask(&self, key: &str, places: &[&Place], _: &Range<usize>) -> Cmd {
        let ids: Vec<_> = places.iter().map(|place| &*place.id).collect();
        cmd("BF.MEXISTS").arg(key).arg(ids).clone()
    }

    fn held(
        &self,
        reply: Reply,
        places: &[&Place],
        _: &Range<usize>,
    ) -> Result<Vec<bool>, StoreError> {
        let held = flags(reply)?;
        if held.len() == places.len() { Ok(held) } else { Err(odd("another number of ids")) }
    }

    fn is_bitmap(&self) -> bool {
        false
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
            return Err(odd("a field of BF.INFO is missing"));
        };
        Ok(Extent { bytes, ids, capacity })
    }

    /// It never shrinks: neither its ids nor its room.
    fn fits(&self, length: u64, ids: u64, extent: &Extent) -> Result<(), Doubt> {
        if extent.ids < ids || extent.bytes < length {
            return Err(Doubt::Damaged);
        }
        if extent.ids >= extent.capacity { Err(Doubt::Refused(Refusal::FULL)) } else { Ok(()) }
    }
}

/// Reads what is said of each id.
///
/// # Errors
///
/// The first error among them, as when a filter that is full takes only some.
fn flags(reply: Reply) -> Result<Vec<bool>, StoreError> {
    let replies = reply.array()?;
    if let Some(reason) = replies.iter().find_map(Reply::error) {
        return Err(StoreError::Refused { doubt: Consequences::read(&reason).doubt, reason });
    }
    replies.iter().map(Reply::flag).collect()
}
