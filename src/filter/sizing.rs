//! How large a filter must be.

use std::fmt;
use std::ops::RangeInclusive;

use super::block::Geometry;
use super::lengths::{MAX_BLOCKS, MAX_HASHES, MAX_STRING_LEN, string_len};
use super::rate::{Curve, false_positive_rate, greatest_load};
use crate::error::SettingError;

const MAX_CAPACITY: u64 = u32::MAX as u64;
const RATES: RangeInclusive<f64> = 1e-9..=0.5;

/// How far a shard's share of the ids may be above the mean, in standard deviations: one shard in 30,000 exceeds it.
const SPREAD: f64 = 4.0;

/// The size of a filter: the fewest blocks that hold `capacity` ids at such a false-positive rate.
///
/// ```
/// let sizing = bloom_guard::Sizing::sharded(1_000_000_000, 0.01, 256)?;
/// assert_eq!(
///     sizing.to_string(),
///     "1000000000 ids at a rate of 0.01: 1242316800 bytes, 4852800 more while it is rebuilt; shards: 256; 9.9 bits and 6 hashes an id"
/// );
/// # Ok::<(), bloom_guard::SettingError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    pub(crate) capacity: u64,
    pub(crate) rate: f64,
    pub(crate) shards: u32,
    /// The ids that one shard is meant for.
    pub(crate) share: u32,
    blocks: u32,
    hashes: u8,
}

impl Sizing {
    /// A million ids at a rate of one in a thousand: 1.9 MB.
    pub(crate) const DEFAULT: Self = Self {
        capacity: 1_000_000,
        rate: 0.001,
        shards: 1,
        share: 1_000_000,
        blocks: 30_363,
        hashes: 9,
    };

    /// Returns the size for `capacity` ids, 1 to 2³² − 1, at a false-positive rate of at most `rate`, 10⁻⁹ to 0.5.
    ///
    /// # Errors
    ///
    /// [`SettingError::Invalid`] when a number is out of range (a rate is a fraction: one per cent is 0.01), or when the filter would not
    /// fit into a Redis string.
    pub fn new(capacity: u64, rate: f64) -> Result<Self, SettingError> {
        Self::sharded(capacity, rate, 1)
    }

    /// Returns the size of a filter that is cut into equal [shards](crate::Builder::shards). Each is sized for its share and
    /// four standard deviations more, as chance does not fill them evenly.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), when one shard would not fit into a Redis string.
    pub fn sharded(capacity: u64, rate: f64, shards: u32) -> Result<Self, SettingError> {
        let shards = shards.max(1);
        let capacities = 1..=MAX_CAPACITY.saturating_mul(shards.into());
        bounded("capacity", capacity, &capacities)?;
        bounded("false-positive rate", rate, &RATES)?;
        let mean = capacity as f64 / f64::from(shards);
        let spread = if shards > 1 { SPREAD * mean.sqrt() } else { 0.0 };
        // No more than fit: the greatest capacity is as many as there are numbers for.
        let share = (mean + spread).ceil() as u32;
        let (blocks, hashes) = smallest(f64::from(share), rate);
        match u32::try_from(blocks) {
            Ok(blocks) if blocks <= MAX_BLOCKS => {
                Ok(Self { capacity, rate, shards, share, blocks, hashes })
            }
            _ => {
                let bytes = string_len(blocks);
                let reason = format!(
                    "a filter for {share} ids at a rate of {rate} takes {bytes} bytes, more than {MAX_STRING_LEN}: in Redis it may be cut \
                     into more shards"
                );
                Err(SettingError::Invalid { setting: "capacity", reason })
            }
        }
    }

    pub(crate) fn one(&self) -> Self {
        Self { capacity: self.share.into(), shards: 1, ..*self }
    }

    /// Returns the number of positions per id.
    #[must_use]
    pub const fn hashes(&self) -> u8 {
        self.hashes
    }

    /// Returns the bits spent per id when the filter holds as many as it is meant for.
    #[must_use]
    pub fn bits_per_id(&self) -> f64 {
        f64::from(self.blocks) * f64::from(self.shards) * 512.0 / self.capacity as f64
    }

    /// Returns the length of the stored strings in bytes, headers and trailers included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        string_len(self.blocks as u64) * self.shards as u64
    }

    /// Returns the false-positive rate to expect with this many ids in the filter.
    #[must_use]
    pub fn expected_rate(&self, items: u64) -> f64 {
        false_positive_rate(self.blocks, self.hashes, items.div_ceil(self.shards.into()))
    }

    pub(crate) const fn geometry(&self, seed: u32) -> Geometry {
        Geometry { blocks: self.blocks, hashes: self.hashes, seed }
    }
}

impl fmt::Display for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capacity, rate, shards, hashes, .. } = self;
        let (bytes, bits) = (self.bytes(), self.bits_per_id());
        let more = bytes / u64::from(*shards);
        write!(
            f,
            "{capacity} ids at a rate of {rate}: {bytes} bytes, {more} more while it is rebuilt; shards: {shards}; {bits:.1} bits and \
             {hashes} hashes an id"
        )
    }
}

pub(crate) fn bounded<T: Copy + fmt::Debug + PartialOrd>(
    setting: &'static str,
    value: T,
    bounds: &RangeInclusive<T>,
) -> Result<(), SettingError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let reason = format!("{value:?} is not between {:?} and {:?}", bounds.start(), bounds.end());
    Err(SettingError::Invalid { setting, reason })
}

/// Returns the fewest blocks that hold the ids at this rate, and their number of hashes; among equals the fewest hashes.
fn smallest(ids: f64, rate: f64) -> (u64, u8) {
    let mut best = (u64::MAX, 0);
    for hashes in 1..=MAX_HASHES {
        let greatest = greatest_load(hashes, rate);
        let mut lower = ((ids / greatest).ceil() as u64).max(1);
        if lower >= best.0 {
            continue;
        }
        let curve = Curve::new(hashes, greatest);
        let enough = |blocks: u64| curve.rate(ids / blocks as f64) <= rate;
        let mut enough_at = best.0 - 1;
        if !enough(enough_at) {
            continue;
        }
        // More blocks never have a higher rate.
        while lower < enough_at {
            let middle = lower.midpoint(enough_at);
            if enough(middle) {
                enough_at = middle;
            } else {
                lower = middle + 1;
            }
        }
        best = (enough_at, hashes);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_per_id_are_those_of_the_published_table() {
        let table = [(0.03, 7.42, 5), (0.01, 9.90, 6), (0.001, 15.49, 9), (0.0001, 21.91, 12)];
        for (rate, bits, hashes) in table.into_iter().chain([(1e-6, 38.51, 16)]) {
            let sizing = Sizing::new(1_000_000, rate).unwrap();
            let ratio = sizing.bits_per_id() / bits;
            assert!((ratio - 1.0).abs() < 0.01, "{rate}: {}", sizing.bits_per_id());
            assert_eq!(sizing.hashes(), hashes, "{rate}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_named_with_the_range() {
        for value in [0, u64::from(u32::MAX) + 1, u64::MAX] {
            let error = Sizing::new(value, 0.01).unwrap_err().to_string();
            assert_eq!(error, format!("capacity: {value} is not between 1 and 4294967295"));
        }
        for value in [0.0, -0.01, 0.9e-9, 0.51, 1.0, f64::INFINITY] {
            let error = Sizing::new(1, value).unwrap_err().to_string();
            let expected = format!("false-positive rate: {value:?} is not between 1e-9 and 0.5");
            assert_eq!(error, expected);
        }
        assert!(Sizing::new(1, f64::NAN).is_err());
    }

    #[test]
    fn a_filter_never_outgrows_a_redis_string() {
        let largest = Sizing::new(430_000_000, 0.01).unwrap();
        assert!(largest.bytes() <= 512 * 1024 * 1024);
        let error = Sizing::new(440_000_000, 0.01).unwrap_err();
        assert!(error.to_string().contains("more than 536870912"), "{error}");
        for rate in [*RATES.start(), *RATES.end()] {
            let error = Sizing::new(MAX_CAPACITY, rate).unwrap_err();
            assert!(error.to_string().contains("more shards"), "{error}");
        }
    }

    #[test]
    fn the_best_number_of_hashes_is_within_the_limit() {
        let hashes = Sizing::new(1_000_000, *RATES.start()).unwrap().hashes();
        assert!(hashes < MAX_HASHES, "{hashes}");
        assert_eq!(Sizing::new(1_000_000, *RATES.end()).unwrap().hashes(), 1);
    }
}
