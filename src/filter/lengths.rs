//! How long a filter is, and its parts, in this process and as it is stored.

pub(crate) const HEADER_LEN: usize = 64;
/// The header, and the line of the stamp.
pub(crate) const FRONT_LEN: usize = HEADER_LEN + 64;
pub(crate) const BLOCK_LEN: usize = 64;
pub(crate) const TRAILER_LEN: usize = 64;
/// The longest string Redis takes by default (`proto-max-bulk-len`): 512 MiB.
pub(crate) const MAX_STRING_LEN: u64 = 512 * 1024 * 1024;
pub(crate) const MAX_BLOCKS: u32 =
    ((MAX_STRING_LEN as usize - FRONT_LEN - TRAILER_LEN) / BLOCK_LEN) as u32;

pub(crate) const MAX_HASHES: u8 = 32;

pub(super) const fn string_len(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_LEN as u64).saturating_add((FRONT_LEN + TRAILER_LEN) as u64)
}
