//! The stored format, byte by byte.
//!
#![doc = include_str!("../format.md")]

pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"BLMGUARD");
pub(super) const VERSION: u16 = 2;
/// The layout of the bits this crate reads and writes: cache-line blocks.
pub(super) const LAYOUT: u8 = 1;

pub(crate) const STATE_OFFSET: usize = 11;
pub(crate) const GENERATION_OFFSET: usize = 16;
/// The stamp is the number of the last insert.
pub(crate) const STAMP_OFFSET: usize = 64;
/// The trailer ends with a number.
pub(crate) const TRAILER_NUMBER_FROM_END: usize = 8;

pub(super) const RESERVED: [u8; 3] = [0; 3];
pub(super) const CHECKSUM_OFFSET: usize = 60;
