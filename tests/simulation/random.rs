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
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    for chunk in bytes.chunks_mut(8) {
        let word = scatter().to_be_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    Ok(())
}

pub(crate) fn scatter() -> u64 {
    SOURCE.with_borrow_mut(Rng::next)
}
