//! The stored format, byte by byte.
//!
#![doc = include_str!("../format.md")]

use crate::filter::lengths::{MAX_BLOCKS, MAX_HASHES};

/// The first eight bytes: `BLMGUARD`.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"BLMGUARD");
/// The format version this crate reads and writes.
pub(crate) const VERSION: u16 = 1;

/// The version of a header without a filter: the filter was left for another one. No crate reads it, and whichever finds it
/// refuses nothing, inserts nothing and rebuilds nothing there.
pub(crate) const MOVED: u16 = u16::MAX;
/// The layout of the bits this crate reads and writes: cache-line blocks.
pub(crate) const LAYOUT: u8 = 1;

/// Where the state is, in bytes from the start.
pub(crate) const STATE_OFFSET: usize = 11;
/// Where the generation is, in bytes from the start.
pub(crate) const GENERATION_OFFSET: usize = 16;
/// Where the nonce is, in bytes from the start.
pub(crate) const NONCE_OFFSET: usize = 24;
/// Where the stamp, the number of the last insert, is, in bytes from the start.
pub(crate) const STAMP_OFFSET: usize = 64;
/// How far the trailer's number, [`Generation::trailer_number`](super::Generation::trailer_number), is from the end of the string, in bytes.
pub(crate) const TRAILER_NUMBER_FROM_END: usize = 8;

pub(super) const VERSION_OFFSET: usize = 8;
pub(super) const LAYOUT_OFFSET: usize = 10;
pub(super) const HASHES_OFFSET: usize = 12;
pub(super) const RESERVED_OFFSET: usize = 13;
pub(super) const BLOCKS_OFFSET: usize = 32;
pub(super) const SEED_OFFSET: usize = 36;
pub(super) const KEY_ID_OFFSET: usize = 40;
pub(super) const RUN_OFFSET: usize = 44;
pub(super) const ITEMS_OFFSET: usize = 48;
pub(super) const CAPACITY_OFFSET: usize = 52;
pub(super) const RATE_OFFSET: usize = 56;
pub(super) const CHECKSUM_OFFSET: usize = 60;

/// Why bytes are not a filter of ours.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(crate) enum FormatError {
    /// There are no bytes at all, as when the key is missing.
    #[error("no bytes")]
    Empty,
    /// There are fewer bytes than a header has.
    #[error("{len} bytes are no header")]
    Short {
        /// How many bytes there are.
        len: usize,
    },
    /// The first eight bytes are not [`MAGIC`].
    #[error("magic number is {found:#018x}")]
    Magic {
        /// What they are.
        found: u64,
    },
    /// The format version is not [`VERSION`].
    #[error("format version is {found}, not {VERSION}")]
    Version {
        /// What it is.
        found: u16,
    },
    /// The layout is not [`LAYOUT`].
    #[error("layout is {found}, not {LAYOUT}")]
    Layout {
        /// What it is.
        found: u8,
    },
    /// The checksum does not match: the header is damaged.
    #[error("checksum is {found:#010x}, not {expected:#010x}")]
    Checksum {
        /// The stored checksum.
        found: u32,
        /// The checksum of the stored bytes.
        expected: u32,
    },
    /// Bytes that ought to be zero are not.
    #[error("reserved bytes are not zero")]
    Reserved,
    /// The state is none.
    #[error("state is {found:#04x}, which is none")]
    State {
        /// What it is.
        found: u8,
    },
    /// The generation is not greater than zero, or greater than [`Generation::MAX`](super::Generation::MAX).
    #[error("generation is {found}, not from 1 to 2^53 - 2")]
    Generation {
        /// What it is.
        found: i64,
    },
    /// The number of blocks is zero or beyond [`MAX_BLOCKS`].
    #[error("blocks are {found}, not 1 to {MAX_BLOCKS}")]
    Blocks {
        /// What it is.
        found: u32,
    },
    /// The number of hashes is zero or beyond [`MAX_HASHES`].
    #[error("hashes are {found}, not 1 to {MAX_HASHES}")]
    Hashes {
        /// What it is.
        found: u8,
    },
    /// The capacity is zero.
    #[error("capacity is {found}, not above 0")]
    Capacity {
        /// What it is.
        found: u32,
    },
    /// The false-positive rate is not above 0 and below 1.
    #[error("rate is {found}, not above 0 and below 1")]
    Rate {
        /// What it is.
        found: f32,
    },
}
