//! The size of a classic Bloom filter, as other libraries compute it.

use std::f64::consts::LN_2;

/// The bits of a filter, and how many of them an id has. Some of an id's may fall on the same place.
///
/// Each library rounds in its own way, and a filter that is one bit longer has other bits set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BloomSize {
    pub(super) bits: u64,
    pub(super) hashes: u32,
}

impl BloomSize {
    /// Returns what rueidisprob's `NewBloomFilter(…, ids, rate)` computes: bits rounded up, hashes rounded, and none where
    /// the rate is high.
    pub(super) fn rueidisprob(ids: u64, rate: f64) -> Self {
        let bits = optimum(ids, rate).ceil() as u64;
        Self { bits, hashes: per_id(bits, ids).round() as u32 }
    }

    /// Returns what the two articles compute that bring Guava's Bloom filter to Redis: bits cut off and no more than an `int`
    /// holds, hashes rounded, and at least one.
    pub(super) fn guava(ids: u64, rate: f64) -> Self {
        let bits = (optimum(ids, rate) as u64).min(i32::MAX as u64);
        Self { bits, hashes: (per_id(bits, ids) + 0.5).floor().max(1.0) as u32 }
    }

    /// Returns how many ids are in a filter with `set` bits set, as Redisson's `count` estimates: `-m/k · ln(1 - set/m)`,
    /// rounded. A filter with no bit left clear tells nothing: `u64::MAX`.
    pub(super) fn estimated_ids(&self, set: u64) -> u64 {
        let (bits, hashes) = (self.bits as f64, f64::from(self.hashes));
        (-bits / hashes * (1.0 - set as f64 / bits).ln()).round() as u64
    }
}

/// Returns the false-positive rate to expect with `ids` ids in a filter of which `capacity` fill half of the bits:
/// `(1 - e^(-k·n/m))^k`, where `k` is `m/capacity · ln 2`.
pub(super) fn rate(bits: u64, capacity: u64, ids: u64) -> f64 {
    let hashes = per_id(bits, capacity);
    (1.0 - (-hashes * ids as f64 / bits as f64).exp()).powf(hashes)
}

/// −n·ln p / ln²2.
fn optimum(ids: u64, rate: f64) -> f64 {
    -(ids as f64) * rate.ln() / (LN_2 * LN_2)
}

/// The best number of hashes, before it is rounded.
fn per_id(bits: u64, ids: u64) -> f64 {
    bits as f64 / ids as f64 * LN_2
}
