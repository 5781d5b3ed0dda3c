//! What a system's file says of its filter: one trait. Its defaults are those of bits in strings.

use std::fmt;
use std::io::Cursor;
use std::ops::Range;

use ::redis::{Cmd, cmd};
use smallvec::SmallVec;

use super::size::BloomSize;
use crate::error::StoreError;
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

/// The bits of the longest Redis string.
pub(super) const MOST_BITS: u64 = 1 << 32;

/// The fields of a filter's config, as Redis has them.
pub(super) type Numbers = Vec<Option<Vec<u8>>>;

/// One system's filter. Its `Debug` form names the system, the keys and the numbers that are not in Redis: a statement about one is
/// none about another.
pub(super) trait Layout: fmt::Debug + Send + Sync + 'static {
    /// Returns the keys that hold the bits, each with its place among the instances.
    fn keys(&self) -> Vec<(usize, String)>;

    /// Returns the instance that has an id's bits.
    fn instance(&self, _id: &[u8]) -> usize {
        0
    }

    /// Returns the hash that has the numbers which decide where ids go, if Redis has them, and its fields: bits, bits of an id,
    /// others.
    fn config(&self) -> Option<(String, &'static [&'static str])> {
        None
    }

    /// Returns the size, or says in words what is wrong with the fields of [`config`](Self::config).
    fn size(&self, config: &Numbers) -> Result<BloomSize, String>;

    /// Returns the first bit of a key that no id's bits can fall on, nor on any after it.
    fn end(&self, size: BloomSize) -> u64 {
        size.bits
    }

    /// Whether the bits of ids are spread evenly, and all move when a number changes.
    fn is_even(&self) -> bool {
        true
    }

    /// Whether some bit of this id would move if the numbers changed.
    fn shows_numbers(&self, _id: &[u8]) -> bool {
        true
    }

    /// Returns where an id's bits are in a filter of this size.
    fn place(&self, size: BloomSize, id: &[u8]) -> Place;

    /// Returns the commands that add ids to a key. Where Redis has the numbers, a script compares them in the same step.
    fn add(&self, size: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        let Some((config, fields)) = self.config() else {
            return places.iter().map(|place| set_bits(key, place)).collect();
        };
        let mut script = cmd("EVAL");
        script.arg(include_str!("set_if_sized.lua")).arg(2).arg(config).arg(key);
        script.arg(fields[0]).arg(size.bits).arg(fields[1]).arg(size.hashes);
        vec![script.arg(all_bits(places)).clone()]
    }

    /// Reads the reply to one of them.
    fn added(&self, reply: Reply) -> Result<(), StoreError> {
        if reply.int().is_ok() {
            return Ok(());
        }
        reply.ints()?.try_for_each(|bit| bit.map(drop))
    }

    /// Returns the command that reads these bits of each id.
    fn ask(&self, key: &str, places: &[&Place], bits: &Range<usize>) -> Cmd {
        let count: usize = places.iter().map(|place| place.part(bits).len()).sum();
        let mut command = Cmd::with_capacity(3 * count + 2, 16 * count + key.len() + 16);
        command.arg("BITFIELD").arg(key);
        for bit in places.iter().flat_map(|place| place.part(bits)) {
            command.arg("GET").arg("u1").arg(*bit);
        }
        command
    }

    /// Reads which ids have all of them.
    fn held(
        &self,
        reply: Reply,
        places: &[&Place],
        bits: &Range<usize>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut values = reply.array()?.into_iter();
        let mut next = || values.next().ok_or_else(|| odd("too few bits"))?.flag();
        let all = |place: &&Place| {
            place.part(bits).iter().try_fold(true, |all, _| Ok::<_, StoreError>(next()? && all))
        };
        let held = places.iter().map(all).collect::<Result<_, _>>()?;
        if values.next().is_some() { Err(odd("too many bits")) } else { Ok(held) }
    }

    /// Whether the filter is bits in strings, which can be counted.
    fn is_bitmap(&self) -> bool {
        true
    }

    /// Returns the command that measures a key.
    fn measure(&self, key: &str) -> Cmd {
        cmd("STRLEN").arg(key).clone()
    }

    /// Reads its reply.
    fn extent(&self, reply: Reply) -> Result<Extent, StoreError> {
        Ok(Extent { bytes: reply.count()?, ..Extent::default() })
    }

    /// Says whether a key is as long as was stated. Of a module, `ids` is the number of ids that it is known to have.
    fn fits(&self, length: u64, _ids: u64, extent: &Extent) -> Result<(), Doubt> {
        match extent.bytes {
            0 => Err(Doubt::Gone),
            bytes if bytes != length => Err(Doubt::Damaged),
            _ => Ok(()),
        }
    }
}

/// What Redis says of a key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) bytes: u64,
    /// The ids in a module's filter, otherwise 0.
    pub(super) ids: u64,
    /// How many ids a module's filter takes before it grows, otherwise 0.
    pub(super) capacity: u64,
}

/// Where an id's bits are.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The key's place among the layout's.
    pub(super) key: usize,
    pub(super) bits: SmallVec<[u64; 16]>,
    /// The id itself where a module of Redis hashes it, otherwise empty.
    pub(super) id: Box<[u8]>,
}

impl Place {
    /// Returns a place in a filter's only key.
    pub(super) fn in_only(bits: impl Iterator<Item = u64>) -> Self {
        Self { key: 0, bits: bits.collect(), id: Box::default() }
    }

    /// Returns these of its bits, as far as there are any.
    fn part(&self, bits: &Range<usize>) -> &[u64] {
        let end = bits.end.min(self.bits.len());
        &self.bits[bits.start.min(end)..end]
    }
}

/// Reads the bits and the bits of an id from the first two fields of a config, each with its greatest value; or says in words
/// what is wrong with them.
pub(super) fn numbers(fields: [(&str, u64); 2], config: &Numbers) -> Result<BloomSize, String> {
    let number = |at: usize| {
        let (field, most) = fields[at];
        let bytes = config.get(at).and_then(Option::as_deref).ok_or_else(|| {
            format!("its config has no {field}: the filter was not initialised, or was deleted")
        })?;
        let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let number = number.filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("the {field} of its config is not between 1 and {most}"))
    };
    Ok(BloomSize { bits: number(0)?, hashes: number(1)? as u32 })
}

/// Sets an id's bits, all at once.
pub(super) fn set_bits(key: &str, place: &Place) -> Cmd {
    let mut command = cmd("BITFIELD");
    command.arg(key);
    for bit in &place.bits {
        command.arg("SET").arg("u1").arg(*bit).arg(1);
    }
    command
}

/// Returns the bits of ids, one id after the other.
pub(super) fn all_bits(places: &[Place]) -> Vec<u64> {
    places.iter().flat_map(|place| place.bits.iter().copied()).collect()
}

/// Returns a key beside another: in the same slot of a cluster.
pub(super) fn beside(key: &str, what: &str) -> String {
    if key.contains('{') { format!("{key}:{what}") } else { format!("{{{key}}}:{what}") }
}

/// Returns the two halves of `MurmurHash3` x64-128, seed 0.
pub(super) fn murmur3(bytes: &[u8]) -> (u64, u64) {
    // Reading from memory does not fail.
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).unwrap_or_default();
    (hash as u64, (hash >> 64) as u64)
}

pub(super) fn odd(answer: &str) -> StoreError {
    StoreError::Odd { step: "another system's filter", answer: answer.to_owned() }
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::*;
    use crate::store::foreign::filter::ForeignFilter;

    fn held(layout: &dyn Layout, place: &Place, value: Value) -> Result<Vec<bool>, StoreError> {
        layout.held(Reply::new("a test", value), &[place], &(0..usize::MAX))
    }

    #[test]
    fn no_odd_reply_is_an_absence_and_none_acknowledges_an_insert() {
        let redisson = ForeignFilter::redisson("key");
        for filter in
            [ForeignFilter::go_zero("key", 20), redisson, ForeignFilter::redisbloom("key")]
        {
            let layout = &*filter.layout;
            let place = layout.place(BloomSize { bits: 20, hashes: 7 }, b"7");
            let bits = place.bits.len().max(1);
            let all = |value: Value| Value::Array(vec![value; bits]);
            assert_eq!(held(layout, &place, all(Value::Int(0))).unwrap(), [false], "{layout:?}");
            assert_eq!(held(layout, &place, all(Value::Int(1))).unwrap(), [true], "{layout:?}");
            let text = || Value::BulkString(b"0".into());
            for odd in [
                Value::Nil,
                Value::Okay,
                Value::Int(0),
                text(),
                all(Value::Nil),
                all(Value::Int(2)),
                all(text()),
                Value::Array(vec![Value::Int(0); bits - 1]),
                Value::Array(vec![Value::Int(0); bits + 1]),
            ] {
                assert!(held(layout, &place, odd.clone()).is_err(), "{layout:?} {odd:?}");
            }
            for odd in [Value::Nil, Value::Okay, all(Value::Nil)] {
                assert!(layout.added(Reply::new("a test", odd.clone())).is_err(), "{odd:?}");
            }
            for odd in [Value::Nil, Value::Int(-1), Value::Okay, all(Value::Nil)] {
                assert!(layout.extent(Reply::new("a test", odd.clone())).is_err(), "{odd:?}");
            }
        }
    }
}
