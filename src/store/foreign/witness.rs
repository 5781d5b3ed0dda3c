//! Witnesses: bits that must be set whenever the filter is whole.
//!
//! A bitmap has no header, and a missing key reads as zeros. So a seal is written behind the filter's last bit when the
//! application says that the filter is whole. Each command that reads an id's bits reads the seal along, in the same step:
//! if it is another, the filter was not whole at that very moment, and what the command says of the id proves nothing.
//!
//! And a Bloom filter never clears a bit. So some of its own bits are looked at now and then, too.

use std::sync::atomic::{AtomicU64, Ordering};

use ::redis::{Cmd, cmd};

use super::layout::MOST_BITS;
use crate::error::StoreError;
use crate::random;
use crate::store::redis::reply::Reply;

/// Bits in a word.
const WORD: u64 = 64;
/// Bits of a seal that are set: few, so that a count of all bits, as Redisson makes one, is off by an id or two at most.
const SEALED: u32 = 8;

/// The 64 bits behind a filter's last, which no id's bits fall on. They go wherever the string goes, and are lost with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    /// The first of its bits, a multiple of 64.
    pub(super) first: u64,
    pub(super) value: i64,
}

impl Seal {
    /// Returns a new seal behind so many bits, if there is room for one.
    pub(super) fn draw(bits: u64) -> Option<Self> {
        let first = bits.next_multiple_of(WORD);
        let mut value = 0_u64;
        while value.count_ones() < SEALED {
            value |= 1 << (random::scatter() % WORD);
        }
        (first + WORD <= MOST_BITS).then_some(Self { first, value: value.cast_signed() })
    }

    /// Has a command read it.
    pub(super) fn ask(&self, command: &mut Cmd) {
        command.arg("GET").arg("i64").arg(self.first);
    }

    /// Whether what was read is this one.
    pub(super) fn is(&self, read: &Reply) -> Result<bool, StoreError> {
        Ok(read.int()? == self.value)
    }
}

/// Words of one key, spread over the whole filter. There is at least one.
#[derive(Debug)]
pub(super) struct Words(Vec<Word>);

/// 64 bits of a filter, and which of them were seen set: ever more, as the filter fills.
#[derive(Debug)]
struct Word {
    /// The first of its bits, a multiple of 64.
    first: u64,
    set: AtomicU64,
}

impl Words {
    /// Returns words, each by its first bit and those that are set, if any is.
    pub(super) fn new(words: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let words = words.filter(|(_, set)| *set != 0);
        let words: Vec<_> =
            words.map(|(first, set)| Word { first, set: AtomicU64::new(set) }).collect();
        (!words.is_empty()).then_some(Self(words))
    }

    /// Returns the command that reads them, and the seal before them.
    pub(super) fn ask(&self, key: &str, seal: &Seal) -> Cmd {
        let mut command = cmd("BITFIELD");
        command.arg(key);
        seal.ask(&mut command);
        for word in &self.0 {
            command.arg("GET").arg("i64").arg(word.first);
        }
        command
    }

    /// Says whether the seal is there and all bits are set that were, and if so, learns which more are.
    pub(super) fn hold(&self, seal: &Seal, reply: Reply) -> Result<bool, StoreError> {
        let mut read = reply.array()?.into_iter();
        let missing = || StoreError::Odd { step: "a look", answer: "too few words".to_owned() };
        let mut holds = seal.is(&read.next().ok_or_else(missing)?)?;
        let mut found = Vec::with_capacity(self.0.len());
        for word in &self.0 {
            let now = read.next().ok_or_else(missing)?.int()?.cast_unsigned();
            let set = word.set.load(Ordering::Relaxed);
            holds &= now & set == set;
            found.push(now);
        }
        if holds {
            for (word, now) in self.0.iter().zip(found) {
                word.set.fetch_or(now, Ordering::Relaxed);
            }
        }
        Ok(holds)
    }
}

/// Returns the first bit of the word that a bit is in.
pub(super) const fn word_of(bit: u64) -> u64 {
    bit / WORD * WORD
}
