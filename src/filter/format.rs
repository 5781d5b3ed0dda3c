//! The stored format, byte by byte.
//!
//! A filter is one string, `header (64 bytes) ‖ blocks × 64 bytes ‖ trailer (64 bytes)`, of at most
//! [`MAX_STRING_LEN`] bytes. All integers are big-endian, so that Redis's `BITFIELD` reads them as
//! they are.
//!
//! # Header
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u64 | magic: `BLMGUARD` in ASCII |
//! | 8 | u16 | format version: 1 |
//! | 10 | u8 | layout of the bits: 1, cache-line blocks |
//! | 11 | u8 | state: 0x0f loading, 0x33 catching up, 0x55 live, 0x66 disproved; 0 for a filter put out of use |
//! | 12 | u8 | hashes: positions per id, 1 to 32 |
//! | 13 | 3 bytes | reserved: zero |
//! | 16 | i64 | generation: the fencing token, a Redis time in µs; greater than 0, at most 2^53 − 2 |
//! | 24 | u64 | nonce: tells two builds of one generation apart |
//! | 32 | u32 | blocks: 1 to 8 388 606 |
//! | 36 | u32 | seed of the positions |
//! | 40 | u32 | id of the digests' secret key |
//! | 44 | u32 | hash of the `run_id` of the Redis process the filter was verified on |
//! | 48 | u32 | items: ids counted by the build; `u32::MAX` stands for that many or more |
//! | 52 | u32 | capacity: ids the filter was sized for; greater than 0 |
//! | 56 | f32 | false-positive rate the filter was sized for; above 0 and below 1 |
//! | 60 | u32 | checksum |
//!
//! The checksum is CRC-32/ISO-HDLC (zlib's and gzip's: polynomial 0x04C11DB7 reflected, initial value
//! and final XOR all ones) over bytes 0 to 59 with byte 11, the state, taken as zero. A change of state
//! therefore writes that one byte and nothing else.
//!
//! Readers check in this order: length, magic, version, layout, checksum, then the fields. A header of
//! a later version is reported as that, not as a damaged one.
//!
//! # Blocks
//!
//! Block n is bytes `64 + 64·n` to `127 + 64·n`. Bit b of a block, 0 to 511, is in its byte `b >> 3`
//! under the mask `0x80 >> (b & 7)`, which is Redis's own order: `GETBIT` finds it at offset
//! `(64 + 64·n)·8 + b`. All offsets are below 2³².
//!
//! The bits of a digest (16 bytes) come from (h1, h2) = `MurmurHash3` x64-128 of the digest with
//! the header's seed:
//!
//! - the block is `(h1 · blocks) >> 64`, computed in 128 bits;
//! - the first seven positions in the block are 9 bits each of h2, lowest bits first: position i is
//!   `(h2 >> 9·i) & 511`, and the topmost bit of h2 goes unused;
//! - the next seven come in the same way from the first output of `SplitMix64` started at h2, the
//!   next from its second output, and so on. Output n is `mix(h2 + n · 0x9E3779B97F4A7C15)` modulo 2⁶⁴,
//!   where `mix(z)` is `z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB;
//!   z ^= z >> 31`.
//!
//! Positions may coincide; an id then has fewer than `hashes` bits.
//!
//! # Trailer
//!
//! 48 zero bytes; the stamp, 8 bytes; then the bits of magic ⊕ generation as the string's last 8 bytes. A string
//! cut short cannot end like that.
//!
//! The stamp is a u64: the number of the last insert that was written while the filter was live, counted by the
//! store; 0 in a filter that is being built. A reader that knows of later inserts has an older copy before it. One
//! that knows of none need not look.

/// The first eight bytes: `BLMGUARD`.
pub const MAGIC: u64 = u64::from_be_bytes(*b"BLMGUARD");
/// The format version this crate reads and writes.
pub const VERSION: u16 = 1;
/// The layout of the bits this crate reads and writes: cache-line blocks.
pub const LAYOUT: u8 = 1;

/// The size of the header in bytes.
pub const HEADER_LEN: usize = 64;
/// The size of a block in bytes.
pub const BLOCK_LEN: usize = 64;
/// The size of the trailer in bytes.
pub const TRAILER_LEN: usize = 64;
/// The longest string Redis takes by default (`proto-max-bulk-len`): 512 MiB.
pub const MAX_STRING_LEN: u64 = 512 * 1024 * 1024;
/// The most blocks a string has room for.
pub const MAX_BLOCKS: u32 =
    ((MAX_STRING_LEN as usize - HEADER_LEN - TRAILER_LEN) / BLOCK_LEN) as u32;

/// The most positions an id can have.
pub const MAX_HASHES: u8 = 32;

/// Where the state is, in bytes from the start.
pub const STATE_OFFSET: usize = 11;
/// Where the generation is, in bytes from the start.
pub const GENERATION_OFFSET: usize = 16;
/// Where the nonce is, in bytes from the start.
pub const NONCE_OFFSET: usize = 24;
/// How far the trailer's one number, [`Generation::seal`](super::Generation::seal), is from the end of the string, in bytes.
pub const SEAL_FROM_END: usize = 8;

/// How far the trailer's stamp, the number of the last insert, is from the end of the string, in bytes.
pub const STAMP_FROM_END: usize = 16;

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

/// Returns the length of a string with this many blocks.
pub(super) const fn string_len(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_LEN as u64).saturating_add((HEADER_LEN + TRAILER_LEN) as u64)
}

/// Why bytes are not a filter of ours.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
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
    /// The blocks are more or fewer than the header says.
    #[error("blocks take {len} bytes, not {expected}")]
    Length {
        /// How many bytes of blocks there are.
        len: u64,
        /// How many there should be.
        expected: u64,
    },
}
