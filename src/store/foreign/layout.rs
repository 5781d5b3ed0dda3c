//! What the store has to be told of another system's filter: one small trait, and a file for each system.

use std::fmt;

use ::redis::{Cmd, cmd};
use smallvec::SmallVec;

use super::size::BloomSize;

/// How many bits the longest Redis string has.
pub(super) const MOST_BITS: u64 = 1 << 32;

/// How a filter is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// As bits of strings.
    Bitmap,
    /// By a module of Redis, in its only key. It hashes the ids itself, and the size means nothing.
    Module,
}

/// One system's filter. All that is particular to a system is said here, and in one file.
pub(super) trait Layout: fmt::Debug + Send + Sync + 'static {
    /// Returns what tells this filter from any other: its layout, its keys and its numbers. Trust in one is none in another.
    fn describe(&self) -> String;

    /// Returns the keys that hold the bits, one after the other, each with its place among the instances.
    fn keys(&self) -> Vec<(usize, String)>;

    /// Returns how each part of it is kept.
    fn kind(&self) -> Kind {
        Kind::Bitmap
    }

    /// Returns the first bit of a key that no id's bits can fall on, nor on any after it.
    fn end(&self, size: BloomSize) -> u64 {
        size.bits
    }

    /// Returns the size of all keys together, without bits that no id's bits can fall on.
    fn whole(&self, size: BloomSize) -> BloomSize {
        BloomSize { bits: self.end(size) * self.keys().len() as u64, ..size }
    }

    /// Whether the bits of ids are spread evenly, and are all others where the numbers are others.
    fn is_even(&self) -> bool {
        true
    }

    /// Whether the bits of this id would be others if the numbers were others.
    fn shows_numbers(&self, _id: &[u8]) -> bool {
        true
    }

    /// Returns on which of the instances an id's bits are.
    fn instance(&self, _id: &[u8]) -> usize {
        0
    }

    /// Returns the hash that has the numbers which decide where ids go, if Redis has them, and its fields: bits, bits of an id,
    /// others.
    fn config(&self) -> Option<(String, &'static [&'static str])> {
        None
    }

    /// Returns the size, as the fields of [`config`](Self::config) have it; or says in words what is wrong with them.
    fn size(&self, config: &[Option<Vec<u8>>]) -> Result<BloomSize, String>;

    /// Returns where an id's bits are in a filter of this size.
    fn place(&self, size: BloomSize, id: &[u8]) -> Place;

    /// Returns the commands that add ids to one key. An error in reply to any of them says that they were not added; first
    /// of all they reply with each bit as it was before. Where Redis has the numbers, a script looks at them in the same step.
    fn add(&self, size: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        let Some((config, fields)) = self.config() else {
            return places.iter().map(|place| set_bits(key, place)).collect();
        };
        let mut script = cmd("EVAL");
        script.arg(include_str!("set_if_sized.lua")).arg(2).arg(config).arg(key);
        script.arg(fields[0]).arg(size.bits).arg(fields[1]).arg(size.hashes);
        let bits: Vec<u64> = places.iter().flat_map(|place| place.bits.iter().copied()).collect();
        vec![script.arg(bits).clone()]
    }
}

/// Where an id's bits are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Of the layout's keys.
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
}

/// Reads the bits and the bits of an id from the first two fields of a config, each with its greatest value; or says in words
/// what is wrong with them.
pub(super) fn numbers(
    fields: [(&str, u64); 2],
    config: &[Option<Vec<u8>>],
) -> Result<BloomSize, String> {
    let number = |at: usize| {
        let (field, most) = fields[at];
        let bytes = config.get(at).and_then(Option::as_deref).ok_or_else(|| {
            format!("its config has no {field}: the filter was not initialised, or was deleted")
        })?;
        let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let number = number.filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("the {field} of its config is not between 1 and {most}"))
    };
    Ok(BloomSize::new(number(0)?, number(1)? as u32))
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
