//! How long a filter is, and its parts, in this process and as it is stored.

/// The size of the header in bytes.
pub(crate) const HEADER_LEN: usize = 64;
/// The size of what lies before the blocks: the header, and the stamp's line.
pub(crate) const FRONT_LEN: usize = HEADER_LEN + 64;
/// The size of a block in bytes.
pub(crate) const BLOCK_LEN: usize = 64;
/// The size of the trailer in bytes.
pub(crate) const TRAILER_LEN: usize = 64;
/// The longest string Redis takes by default (`proto-max-bulk-len`): 512 MiB.
pub(crate) const MAX_STRING_LEN: u64 = 512 * 1024 * 1024;
/// The most blocks a string has room for.
pub(crate) const MAX_BLOCKS: u32 =
    ((MAX_STRING_LEN as usize - FRONT_LEN - TRAILER_LEN) / BLOCK_LEN) as u32;

/// The most positions an id can have.
pub(crate) const MAX_HASHES: u8 = 32;

pub(super) const fn string_len(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_LEN as u64).saturating_add((FRONT_LEN + TRAILER_LEN) as u64)
}
