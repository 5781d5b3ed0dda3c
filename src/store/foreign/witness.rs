//! Witnesses: bits that were seen set, and so must be set whenever the filter is whole.
//!
//! A bitmap has no header, and a missing key reads as zeros. But a Bloom filter never clears a bit. Each command that
//! reads an id's bits reads some others along, in the same step: the seal, which is written behind the filter's last bit
//! when the filter is said to be whole, and 64 bits of the filter itself. If one of these is clear, the filter was not
//! whole at that very moment, and what the command says of the id proves nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ::redis::Cmd;

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
}

/// The witnesses of one key: words that are spread over the whole filter. There is at least one.
#[derive(Debug)]
pub(super) struct Witnesses {
    seal: Option<Seal>,
    words: Vec<Word>,
    next: AtomicUsize,
}

/// 64 bits of a filter, and which of them were seen set: ever more, as the filter fills.
#[derive(Debug)]
struct Word {
    /// The first of its bits, a multiple of 64.
    first: u64,
    set: AtomicU64,
}

/// What one command reads along.
#[derive(Debug, Clone, Copy)]
pub(super) struct Witness {
    seal: Option<Seal>,
    word: usize,
    first: u64,
}

/// What a witness shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    is_sealed: bool,
    word: usize,
    set: u64,
}

impl Witnesses {
    /// Returns witnesses from words, each by its first bit and those that are set, if any is.
    pub(super) fn new(seal: Option<Seal>, words: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let words = words.filter(|(_, set)| *set != 0);
        let words: Vec<_> =
            words.map(|(first, set)| Word { first, set: AtomicU64::new(set) }).collect();
        (!words.is_empty()).then(|| Self { seal, words, next: AtomicUsize::new(0) })
    }

    /// Chooses what the next command reads along: the words by turns.
    pub(super) fn choose(&self) -> Witness {
        self.witness(self.next.fetch_add(1, Ordering::Relaxed) % self.words.len())
    }

    /// Returns all that there is to read along.
    pub(super) fn all(&self) -> impl Iterator<Item = Witness> {
        (0..self.words.len()).map(|word| self.witness(word))
    }

    fn witness(&self, word: usize) -> Witness {
        Witness { seal: self.seal, word, first: self.words[word].first }
    }

    /// Whether all is set that was.
    pub(super) fn agree(&self, said: &Said) -> bool {
        let set = self.words[said.word].set.load(Ordering::Relaxed);
        said.is_sealed && said.set & set == set
    }

    /// Notes what was seen set, where all witnesses that were read in one step agree.
    pub(super) fn learn(&self, said: &Said) {
        self.words[said.word].set.fetch_or(said.set, Ordering::Relaxed);
    }
}

impl Witness {
    /// Has a command read it.
    pub(super) fn ask(&self, command: &mut Cmd) {
        let first = self.seal.map(|seal| seal.first);
        for first in first.into_iter().chain([self.first]) {
            command.arg("GET").arg("i64").arg(first);
        }
    }

    /// Takes its part of a command's reply.
    pub(super) fn read(
        &self,
        replies: &mut impl Iterator<Item = Reply>,
    ) -> Result<Said, StoreError> {
        let mut next = || {
            let missing =
                || StoreError::Odd { step: "a check", answer: "too few fields".to_owned() };
            replies.next().ok_or_else(missing)?.int()
        };
        let is_sealed = match self.seal {
            Some(seal) => next()? == seal.value,
            None => true,
        };
        Ok(Said { is_sealed, word: self.word, set: next()?.cast_unsigned() })
    }
}

/// Returns the first bit of the word that a bit is in.
pub(super) const fn word_of(bit: u64) -> u64 {
    bit / WORD * WORD
}
