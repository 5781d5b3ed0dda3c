//! Witnesses: bits that were seen set, and so must be set whenever the filter is whole.
//!
//! A bitmap has no header, and a missing key reads as zeros. But a Bloom filter never clears a bit. Each command that
//! reads an id's bits reads some of these along, in the same command: if one is clear, the filter was not whole at that
//! very moment, and what the command says of the id proves nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ::redis::Cmd;

use crate::error::StoreError;
use crate::store::redis::reply::Reply;

/// Bits that are remembered of one kind.
const RECENT: usize = 64;
/// Bits in a word.
const WORD: u64 = 64;

/// 64 bits of a filter, and which of them were seen set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// The first of its bits, a multiple of 64.
    pub(super) first: u64,
    pub(super) set: u64,
}

/// The witnesses of one key.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// Spread over the whole filter. Never empty.
    words: Vec<Word>,
    next: AtomicUsize,
    /// Of own inserts: a filter that was put back from a copy lacks the last of them first.
    added: Recent,
    /// Of ids that were found present, which others may have inserted.
    seen: Recent,
}

/// Bits that were set lately.
#[derive(Debug)]
struct Recent {
    /// Each plus one; 0 where there is none.
    bits: [AtomicU64; RECENT],
    newest: AtomicUsize,
}

/// What one command reads along.
#[derive(Debug, Clone, Copy)]
pub(super) struct Witness {
    word: Word,
    recent: [Option<u64>; 2],
}

impl Witnesses {
    /// Returns witnesses from these words, if any has a bit set.
    pub(super) fn new(words: Vec<Word>) -> Option<Self> {
        let words: Vec<_> = words.into_iter().filter(|word| word.set != 0).collect();
        let (added, seen) = (Recent::new(), Recent::new());
        (!words.is_empty()).then(|| Self { words, next: AtomicUsize::new(0), added, seen })
    }

    /// Notes that an id of this process's own was inserted, and where.
    pub(super) fn added(&self, bits: &[u64]) {
        self.added.note(bits);
    }

    /// Notes that an id was found present, and where.
    pub(super) fn seen(&self, bits: &[u64]) {
        self.seen.note(bits);
    }

    /// Chooses what the next command reads along: the words by turns, and the newest bits.
    pub(super) fn choose(&self) -> Witness {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let word = self.words[at % self.words.len()];
        Witness { word, recent: [self.added.newest(), self.seen.newest()] }
    }

    /// Returns all that there is to read along.
    pub(super) fn all(&self) -> impl Iterator<Item = Witness> {
        (0..self.words.len().max(RECENT)).map(|at| {
            let word = self.words[at % self.words.len()];
            Witness { word, recent: [self.added.at(at), self.seen.at(at)] }
        })
    }
}

impl Recent {
    fn new() -> Self {
        Self { bits: std::array::from_fn(|_| AtomicU64::new(0)), newest: AtomicUsize::new(0) }
    }

    fn note(&self, bits: &[u64]) {
        let at = self.newest.load(Ordering::Relaxed).wrapping_add(1);
        // Not always the same of its bits.
        if let Some(bit) = bits.get(at % bits.len().max(1)) {
            self.bits[at % RECENT].store(bit + 1, Ordering::Relaxed);
            self.newest.store(at, Ordering::Relaxed);
        }
    }

    fn newest(&self) -> Option<u64> {
        self.at(self.newest.load(Ordering::Relaxed))
    }

    fn at(&self, at: usize) -> Option<u64> {
        self.bits[at % RECENT].load(Ordering::Relaxed).checked_sub(1)
    }
}

impl Witness {
    /// Has a command read it.
    pub(super) fn ask(&self, command: &mut Cmd) {
        command.arg("GET").arg("i64").arg(self.word.first);
        for bit in self.recent.into_iter().flatten() {
            command.arg("GET").arg("u1").arg(bit);
        }
    }

    /// Takes its part of a command's reply; says whether all is set that was.
    pub(super) fn speaks(
        &self,
        replies: &mut impl Iterator<Item = Reply>,
    ) -> Result<bool, StoreError> {
        let mut next = || {
            let missing =
                || StoreError::Odd { step: "a check", answer: "too few fields".to_owned() };
            replies.next().ok_or_else(missing)?.int()
        };
        let mut speaks = next()?.cast_unsigned() & self.word.set == self.word.set;
        for _ in self.recent.into_iter().flatten() {
            speaks &= next()? == 1;
        }
        Ok(speaks)
    }
}

/// Returns the first bit of the word that a bit is in.
pub(super) const fn word_of(bit: u64) -> u64 {
    bit / WORD * WORD
}
