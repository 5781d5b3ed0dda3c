//! The one source of chance in a run.

use std::ops::Range;

/// `SplitMix64`: small, fast, and the same everywhere.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in the range.
    pub(crate) const fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Whether something that happens so many times in a thousand happens now.
    pub(crate) const fn happens(&mut self, per_mille: u64) -> bool {
        self.within(0..1000) < per_mille
    }

    /// One of these.
    pub(crate) const fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.within(0..from.len() as u64) as usize]
    }
}
