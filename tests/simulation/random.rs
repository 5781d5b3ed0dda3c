//! Stands in for the crate's random source: the numbers follow from the run's seed.

use std::cell::RefCell;

use crate::rng::Rng;

thread_local! {
    static SOURCE: RefCell<Rng> = const { RefCell::new(Rng::new(0)) };
}

/// Begins the numbers of a run.
pub(crate) fn begin(seed: u64) {
    SOURCE.with_borrow_mut(|source| *source = Rng::new(seed));
}

#[expect(clippy::unnecessary_wraps, reason = "the signature is the real source's")]
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(8) {
        let word = scatter().to_be_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    Ok(bytes)
}

pub(crate) fn scatter() -> u64 {
    SOURCE.with_borrow_mut(Rng::next)
}

pub(crate) fn fraction() -> f64 {
    scatter() as f64 / u64::MAX as f64
}
