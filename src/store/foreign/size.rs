//! How large the filters of other libraries are, as each library computes it.

use std::f64::consts::LN_2;

/// The size of a classic Bloom filter: its bits, and how many of them an id has.
///
/// Each library that sizes a filter from a number of ids and a false-positive rate rounds in its own way, and a filter
/// that is one bit longer has other bits set. The constructors compute what the libraries compute, rounding,
/// saturation and all. Whether a filter of that size can be had at all is the layout's affair.
///
/// ```
/// use bloom_guard::BloomSize;
///
/// let size = BloomSize::redisson(1_000_000, 0.001);
/// assert_eq!((size.bits, size.hashes), (14_377_587, 10));
/// assert_eq!(BloomSize::rueidisprob(1_000_000, 0.001).bits, 14_377_588);
/// assert!((size.expected_rate(1_000_000) - 0.001).abs() < 1e-5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BloomSize {
    /// The bits of the filter, `m`.
    pub bits: u64,
    /// The bits of an id, `k`. Some may fall on the same place.
    pub hashes: u32,
}

impl BloomSize {
    /// Returns the size with these numbers.
    #[must_use]
    pub const fn new(bits: u64, hashes: u32) -> Self {
        Self { bits, hashes }
    }

    /// Returns what go-zero's documentation advises: 20 bits for each id, 14 of them set. The rate is 6.7e-5.
    #[must_use]
    pub const fn go_zero(ids: u64) -> Self {
        Self { bits: ids.saturating_mul(20), hashes: 14 }
    }

    /// Returns what Redisson's `tryInit(ids, rate)` computes: bits cut off, hashes rounded, and at least one.
    #[must_use]
    pub fn redisson(ids: u64, rate: f64) -> Self {
        // Java's `Double.MIN_VALUE` stands for no rate at all.
        let rate = if rate == 0.0 { f64::from_bits(1) } else { rate };
        let bits = optimum(ids, rate) as u64;
        Self { bits, hashes: (per_id(bits, ids) + 0.5).floor().max(1.0) as u32 }
    }

    /// Returns what rueidisprob's `NewBloomFilter(…, ids, rate)` computes: bits rounded up, hashes rounded, and none where
    /// the rate is high.
    #[must_use]
    pub fn rueidisprob(ids: u64, rate: f64) -> Self {
        let bits = optimum(ids, rate).ceil() as u64;
        Self { bits, hashes: per_id(bits, ids).round() as u32 }
    }

    /// Returns what the two articles compute that bring Guava's Bloom filter to Redis, with Jedis and with
    /// `RedisTemplate`: bits cut off and no more than an `int` holds, hashes rounded, and at least one.
    #[must_use]
    pub fn guava(ids: u64, rate: f64) -> Self {
        let bits = (optimum(ids, rate) as u64).min(i32::MAX as u64);
        Self { bits, hashes: (per_id(bits, ids) + 0.5).floor().max(1.0) as u32 }
    }

    /// Returns what Orestes computes: bits rounded up and no more than an `int` holds, hashes rounded up.
    #[must_use]
    pub fn orestes(ids: u64, rate: f64) -> Self {
        let bits = (optimum(ids, rate).ceil() as u64).min(i32::MAX as u64);
        Self { bits, hashes: (LN_2 * bits as f64 / ids as f64).ceil() as u32 }
    }

    /// Returns the false-positive rate to expect with `ids` ids in the filter: `(1 - e^(-k·n/m))^k`.
    #[must_use]
    pub fn expected_rate(&self, ids: u64) -> f64 {
        let (bits, hashes) = (self.bits as f64, f64::from(self.hashes));
        (1.0 - (-hashes * ids as f64 / bits).exp()).powf(hashes)
    }

    /// Returns how many ids are in a filter with `set` bits set, as Redisson's `count` estimates:
    /// `-m/k · ln(1 - set/m)`, rounded. A filter with no bit left clear tells nothing: `u64::MAX`.
    #[must_use]
    pub fn estimated_ids(&self, set: u64) -> u64 {
        let (bits, hashes) = (self.bits as f64, f64::from(self.hashes));
        (-bits / hashes * (1.0 - set as f64 / bits).ln()).round() as u64
    }
}

/// −n·ln p / ln²2.
fn optimum(ids: u64, rate: f64) -> f64 {
    -(ids as f64) * rate.ln() / (LN_2 * LN_2)
}

/// The best number of hashes, before it is rounded.
fn per_id(bits: u64, ids: u64) -> f64 {
    bits as f64 / ids as f64 * LN_2
}
