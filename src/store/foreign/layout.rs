//! What a system's file says of its filter: one trait. Its defaults are those of bits in a string.

use std::f64::consts::LN_2;
use std::fmt;
use std::io::Cursor;

use ::redis::{Cmd, cmd};
use smallvec::SmallVec;

use crate::error::StoreError;
use crate::store::link::reply::Reply;

/// The bits of the longest Redis string.
pub(super) const MOST_BITS: u64 = 1 << 32;

/// Where an id's bits are.
pub(super) type Bits = SmallVec<[u64; 16]>;

/// How one system lays out its filter. Ids are their bytes.
pub(super) trait Layout: fmt::Debug + Send + Sync + 'static {
    /// Returns which of the filter's keys has an id's bits.
    fn key(&self, _id: &[u8]) -> usize {
        0
    }

    /// Returns where an id's bits are in a filter of this size.
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits;

    /// Whether the bits of ids are spread evenly, and all move when a number changes.
    fn is_even(&self) -> bool {
        true
    }

    /// Whether some bit of this id would move if the numbers changed.
    fn shows_numbers(&self, _id: &[u8]) -> bool {
        true
    }

    /// Returns the commands that add ids. Redis replies with an integer, or some.
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

    /// Returns the command that measures a key.
    fn measure(&self, key: &str) -> Cmd {
        cmd("STRLEN").arg(key).clone()
    }

    /// Reads its reply.
    fn extent(&self, reply: Reply) -> Result<Extent, StoreError> {
        Ok(Extent::String(reply.count()?))
    }
}

/// What Redis says of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// Its length in bytes.
    String(u64),
    Module {
        bytes: u64,
        ids: u64,
        /// How many ids it takes before it grows.
        capacity: u64,
    },
}

/// The bits of a filter, and how many of them an id has. Some of an id's may fall on the same place.
///
/// Each library rounds in its own way, and a filter that is one bit longer has other bits set.
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

/// Returns the best number of bits: −n·ln p / ln²2.
pub(super) fn optimum(ids: u64, rate: f64) -> f64 {
    -(ids as f64) * rate.ln() / (LN_2 * LN_2)
}

/// Returns the best number of bits of an id, before it is rounded.
pub(super) fn per_id(bits: u64, ids: u64) -> f64 {
    bits as f64 / ids as f64 * LN_2
}

/// Sets bits, all at once.
pub(super) fn set_bits(key: &str, bits: &[u64]) -> Cmd {
    let mut command = cmd("BITFIELD");
    command.arg(key);
    for bit in bits {
        command.arg("SET").arg("u1").arg(*bit).arg(1);
    }
    command
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

/// Returns so many hashes of an id, put together from the two halves of one.
pub(super) fn double_hashes(id: &[u8], hashes: u32) -> impl Iterator<Item = u64> + use<> {
    let (h1, h2) = murmur3(id);
    (0..hashes).map(move |number| h1.wrapping_add(u64::from(number).wrapping_mul(h2)))
}
