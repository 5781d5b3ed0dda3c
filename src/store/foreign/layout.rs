//! What a system's file says of its filter: one trait. Its defaults are those of bits in a string.

use std::f64::consts::LN_2;
use std::fmt;
use std::io::Cursor;

use ::redis::{Cmd, cmd};
use smallvec::SmallVec;

use crate::error::StoreError;
use crate::store::link::reply::Reply;

pub(super) const MOST_BITS: u64 = 1 << 32;

pub(super) type Bits = SmallVec<[u64; 16]>;

/// How one system lays out its filter. Ids are their bytes.
pub(super) trait Layout: fmt::Debug + Send + Sync + 'static {
    /// Returns which of the filter's keys has an id's bits.
    fn key(&self, _id: &[u8]) -> usize {
        0
    }

    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits;

    /// Whether the bits of ids are spread evenly, and all move when a number changes.
    fn is_even(&self) -> bool {
        true
    }

    /// Whether a bit of this id would move if the numbers changed.
    fn shows_numbers(&self, _size: BloomSize, _id: &[u8]) -> bool {
        true
    }

    /// Returns commands that add ids. Redis replies to each with one integer, or several.
    fn add(&self, size: BloomSize, key: &str, ids: &[&[u8]]) -> Vec<Cmd> {
        ids.iter().map(|id| set_bits(key, &self.bits(size, id))).collect()
    }

    /// Returns the command that reads the bits of ids, one id after the other.
    fn ask(&self, size: BloomSize, key: &str, ids: &[&[u8]]) -> Cmd {
        let count = ids.len() * size.hashes as usize;
        let mut command = Cmd::with_capacity(3 * count + 2, 16 * count + key.len() + 16);
        command.arg("BITFIELD").arg(key);
        for bit in ids.iter().flat_map(|id| self.bits(size, id)) {
            command.arg("GET").arg("u1").arg(bit);
        }
        command
    }

    fn measure(&self, key: &str) -> Cmd {
        cmd("STRLEN").arg(key).clone()
    }

    /// Reads the reply to [`measure`](Self::measure).
    fn extent(&self, reply: Reply) -> Result<Extent, StoreError> {
        Ok(Extent::String(reply.count()?))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    String(u64),
    Module { bytes: u64, ids: u64, capacity: u64 },
}

/// The number of bits of a filter, and of bits an id. Each library rounds in its own way, and a filter that is one bit longer has
/// other bits set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BloomSize {
    pub(super) bits: u64,
    pub(super) hashes: u32,
}

impl BloomSize {
    /// Returns how many ids are in a filter with `set` bits set, as Redisson's `count` estimates: `-m/k · ln(1 - set/m)`,
    /// rounded. A filter with no bit left clear tells nothing: `u64::MAX`.
    pub(super) fn estimated_ids(self, set: u64) -> u64 {
        let (bits, hashes) = (self.bits as f64, f64::from(self.hashes));
        (-bits / hashes * (1.0 - set as f64 / bits).ln()).round() as u64
    }
}

/// −n·ln p / ln²2.
pub(super) fn optimum(ids: u64, rate: f64) -> f64 {
    -(ids as f64) * rate.ln() / (LN_2 * LN_2)
}

/// Returns the best number of bits of an id, before it is rounded.
pub(super) fn per_id(bits: u64, ids: u64) -> f64 {
    bits as f64 / ids as f64 * LN_2
}

pub(super) fn set_bits(key: &str, bits: &[u64]) -> Cmd {
    let mut command = cmd("BITFIELD");
    command.arg(key);
    for bit in bits {
        command.arg("SET").arg("u1").arg(*bit).arg(1);
    }
    command
}

/// Returns a key in the same slot of a cluster.
pub(super) fn beside(key: &str, what: &str) -> String {
    if key.contains('{') { format!("{key}:{what}") } else { format!("{{{key}}}:{what}") }
}

/// Returns both halves of `MurmurHash3` x64-128, seed 0.
pub(super) fn murmur3(bytes: &[u8]) -> (u64, u64) {
    // Reading from memory does not fail.
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).unwrap_or_default();
    (hash as u64, (hash >> 64) as u64)
}

/// Returns hashes of an id, put together from the two halves of one.
pub(super) fn double_hashes(id: &[u8], hashes: u32) -> impl Iterator<Item = u64> + use<> {
    let (h1, h2) = murmur3(id);
    (0..hashes).map(move |number| h1.wrapping_add(u64::from(number).wrapping_mul(h2)))
}
