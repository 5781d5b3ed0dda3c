//! Where random numbers come from.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Draws bytes from the system's random source.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns a number that differs from call to call and from process to process, and need not be
/// unguessable.
pub(crate) fn scatter() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns such a number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    scatter() as f64 / u64::MAX as f64
}
