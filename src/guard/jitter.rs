//! Lifetimes that differ, lest nulls stored together end together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::random;

/// Spreads lifetimes by up to a tenth either way.
pub(super) struct Jitter(AtomicU64);

impl Jitter {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(random::scatter()))
    }

    pub(super) fn spread(&self, ttl: Duration) -> Duration {
        // SplitMix64: good enough to scatter, and not meant to be unguessable.
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let tenths = (z >> 32) as f64 / f64::from(u32::MAX);
        ttl.mul_f64(0.9 + 0.2 * tenths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_spread_by_a_tenth_and_no_more() {
        let jitter = Jitter::new();
        let ttl = Duration::from_secs(30);
        let spread: Vec<_> = (0..1000).map(|_| jitter.spread(ttl)).collect();
        let (low, high) = (Duration::from_secs(27), Duration::from_secs(33));
        assert!(spread.iter().all(|ttl| (low..=high).contains(ttl)));
        assert!(spread.iter().any(|ttl| *ttl < Duration::from_secs(28)));
        assert!(spread.iter().any(|ttl| *ttl > Duration::from_secs(32)));
    }
}
