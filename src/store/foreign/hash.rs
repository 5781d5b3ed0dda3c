//! The hashes of other libraries.

use std::io::Cursor;

use highway::{HighwayHash as _, HighwayHasher, Key};

/// Returns the two halves of `MurmurHash3` x64-128, seed 0.
pub(super) fn murmur3(bytes: &[u8]) -> (u64, u64) {
    // Reading from memory does not fail.
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).unwrap_or_default();
    (hash as u64, (hash >> 64) as u64)
}

/// Returns the two halves of `HighwayHash`-128 under Redisson's key.
pub(super) fn highway(bytes: &[u8]) -> (u64, u64) {
    const KEY: Key = Key([
        0x9e37_79b9_7f4a_7c15,
        0xf39c_c060_5ced_c834,
        0x1082_276b_f3a2_7251,
        0xf86c_6a11_d0c1_8e95,
    ]);
    let [h1, h2] = HighwayHasher::new(KEY).hash128(bytes);
    (h1, h2)
}
