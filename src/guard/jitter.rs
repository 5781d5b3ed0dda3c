//! Lifetimes that differ, lest nulls stored together end together.

use std::time::Duration;

use crate::random;

/// Returns a lifetime that differs by up to a tenth either way.
pub(super) fn spread(ttl: Duration) -> Duration {
    ttl.mul_f64(0.9 + 0.2 * random::fraction())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_spread_by_a_tenth_and_no_more() {
        let ttl = Duration::from_secs(30);
        let spread: Vec<_> = (0..1000).map(|_| spread(ttl)).collect();
        let (low, high) = (Duration::from_secs(27), Duration::from_secs(33));
        assert!(spread.iter().all(|ttl| (low..=high).contains(ttl)));
        assert!(spread.iter().any(|ttl| *ttl < Duration::from_secs(28)));
        assert!(spread.iter().any(|ttl| *ttl > Duration::from_secs(32)));
    }
}
