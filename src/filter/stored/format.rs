//! The stored format, byte by byte.
//!
#![doc = include_str!("../format.md")]

/// The first eight bytes: `BLMGUARD`.
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"BLMGUARD");
/// The format version this crate reads and writes.
pub(super) const VERSION: u16 = 2;
/// The layout of the bits this crate reads and writes: cache-line blocks.
pub(super) const LAYOUT: u8 = 1;

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
