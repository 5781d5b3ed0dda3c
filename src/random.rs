//! Where random numbers come from.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Fills a buffer from the system's random source.
///
/// # Errors
///
/// Whatever the random source reports.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    getrandom::fill(bytes)
}

/// Returns a number that differs from call to call and from process to process, and need not be
/// unguessable.
pub(crate) fn scatter() -> u64 {
    RandomState::new().build_hasher().finish()
}
