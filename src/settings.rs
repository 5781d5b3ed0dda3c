//! What a store has to be told, with its defaults and bounds.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::ConfigError;
use crate::filter::Sizing;
use crate::id::SecretKey;
use crate::store::Retention;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Everything a store needs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) sizing: Sizing,
    pub(crate) null_ttl: Duration,
    /// Nulls written in a second after 404s.
    pub(crate) nulls_per_second: u32,
    /// How long a removal is remembered; none to have it follow the rebuild schedule.
    pub(crate) removed_ttl: Option<Duration>,
    pub(crate) longest_transaction: Duration,
    pub(crate) longest_rebuild: Duration,
    pub(crate) handler_time: Duration,
    pub(crate) journal_entries: u64,
    pub(crate) null_cache_bytes: u64,
    pub(crate) check_deadline: Duration,
    /// Checks under way at once.
    pub(crate) checks_in_flight: u32,
    pub(crate) accept_eviction: bool,
    pub(crate) shrink_limit: f64,
    /// The key the application gave.
    pub(crate) secret_key: Option<SecretKey>,
    /// A key drawn at random, for when there is no other.
    pub(crate) drawn_key: SecretKey,
}

impl Settings {
    /// Returns the defaults for a filter of this name.
    pub(crate) fn new(name: String) -> Result<Self, ConfigError> {
        if !is_name(&name) {
            return Err(ConfigError::Name { name });
        }
        let drawn_key = SecretKey::random()
            .map_err(|error| ConfigError::Random { reason: error.to_string() })?;
        Ok(Self {
            name,
            sizing: Sizing::new(1_000_000, 0.001)?,
            null_ttl: 30 * SECOND,
            nulls_per_second: 1_000,
            removed_ttl: None,
            longest_transaction: 15 * MINUTE,
            longest_rebuild: 105 * MINUTE,
            handler_time: 30 * SECOND,
            journal_entries: 1_000_000,
            null_cache_bytes: 8 << 20,
            check_deadline: Duration::from_millis(25),
            checks_in_flight: 4_096,
            accept_eviction: false,
            shrink_limit: 0.1,
            secret_key: None,
            drawn_key,
        })
    }

    /// The journal reaches back over the longest rebuild and, from there, the longest transaction.
    pub(crate) fn retention(&self) -> Retention {
        Retention {
            overlap: self.longest_transaction,
            journal: self.longest_transaction + self.longest_rebuild,
            journal_entries: self.journal_entries,
            handler: self.handler_time,
        }
    }

    /// Returns the key to hash with when nobody else has a say in it.
    pub(crate) fn own_key(&self) -> &SecretKey {
        self.secret_key.as_ref().unwrap_or(&self.drawn_key)
    }
}

/// The bounds of the settings.
pub(crate) mod bounds {
    use super::{Duration, HOUR, MINUTE, RangeInclusive, SECOND};

    pub(crate) const NULL_TTL: RangeInclusive<Duration> = SECOND..=HOUR;
    pub(crate) const REMOVED_TTL: RangeInclusive<Duration> =
        SECOND..=Duration::from_secs(31 * 24 * 60 * 60);
    pub(crate) const CHECK_DEADLINE: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(10);
    pub(crate) const CHECKS_IN_FLIGHT: RangeInclusive<u64> = 1..=65_536;
    pub(crate) const SHRINK_LIMIT: RangeInclusive<f64> = 0.0..=1.0;
    pub(crate) const LONGEST_TRANSACTION: RangeInclusive<Duration> =
        SECOND..=Duration::from_secs(24 * 60 * 60);
    pub(crate) const LONGEST_REBUILD: RangeInclusive<Duration> =
        MINUTE..=Duration::from_secs(24 * 60 * 60);
    pub(crate) const HANDLER_TIME: RangeInclusive<Duration> = Duration::from_millis(100)..=HOUR;
    pub(crate) const JOURNAL_ENTRIES: RangeInclusive<u64> = 1_000..=1_000_000_000;
    pub(crate) const LANE_CONCURRENCY: RangeInclusive<u64> = 1..=100_000;
    pub(crate) const LANE_RATE: RangeInclusive<u64> = 1..=1_000_000;
    pub(crate) const AUDITS: RangeInclusive<u64> = 0..=10_000;
    pub(crate) const NULLS_PER_SECOND: RangeInclusive<u64> = 0..=1_000_000;
    pub(crate) const RECENTLY_SEEN: RangeInclusive<u64> = 1..=1 << 30;
    pub(crate) const NULL_CACHE_BYTES: RangeInclusive<u64> = 64 << 10..=4 << 30;
}

/// Returns the duration if it is within its bounds.
pub(crate) fn duration(
    setting: &'static str,
    value: Duration,
    bounds: &RangeInclusive<Duration>,
) -> Result<Duration, ConfigError> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(ConfigError::Duration { setting, value, min: *bounds.start(), max: *bounds.end() })
}

/// Returns the share if it is within its bounds.
pub(crate) fn share(
    setting: &'static str,
    value: f64,
    bounds: &RangeInclusive<f64>,
) -> Result<f64, ConfigError> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(ConfigError::Number { setting, value, min: *bounds.start(), max: *bounds.end() })
}

/// Returns the number if it is within its bounds.
pub(crate) fn number(
    setting: &'static str,
    value: u64,
    bounds: &RangeInclusive<u64>,
) -> Result<u64, ConfigError> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (min, max) = (*bounds.start() as f64, *bounds.end() as f64);
    Err(ConfigError::Number { setting, value: value as f64, min, max })
}

/// Returns the number if it is within its bounds, which fit 32 bits.
pub(crate) fn small(
    setting: &'static str,
    value: u32,
    bounds: &RangeInclusive<u64>,
) -> Result<u32, ConfigError> {
    number(setting, value.into(), bounds).map(|_| value)
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_steer_a_key() {
        for name in ["users", "v1:users.eu-west_2", &"x".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "us ers", "us{e}rs", "users\r\n", "benützer", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_defaults_are_within_the_bounds() {
        let settings = Settings::new("users".into()).unwrap();
        assert!(bounds::NULL_TTL.contains(&settings.null_ttl));
        assert!(bounds::CHECK_DEADLINE.contains(&settings.check_deadline));
        assert!(bounds::CHECKS_IN_FLIGHT.contains(&settings.checks_in_flight.into()));
        assert!(bounds::SHRINK_LIMIT.contains(&settings.shrink_limit));
        assert!(bounds::LONGEST_TRANSACTION.contains(&settings.longest_transaction));
        assert!(bounds::LONGEST_REBUILD.contains(&settings.longest_rebuild));
        assert!(bounds::HANDLER_TIME.contains(&settings.handler_time));
        assert!(bounds::JOURNAL_ENTRIES.contains(&settings.journal_entries));
        assert!(bounds::NULL_CACHE_BYTES.contains(&settings.null_cache_bytes));
        assert_eq!(settings.retention().journal, 2 * HOUR);
    }
}
