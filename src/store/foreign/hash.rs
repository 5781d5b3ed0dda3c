//! The hash that several libraries share.

use std::io::Cursor;

/// Returns the two halves of `MurmurHash3` x64-128, seed 0.
pub(super) fn murmur3(bytes: &[u8]) -> (u64, u64) {
    // Reading from memory does not fail.
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).unwrap_or_default();
    (hash as u64, (hash >> 64) as u64)
}
