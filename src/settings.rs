//! What a store, its nulls and its rebuilds have to be told, with defaults and bounds.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::SettingError;
use crate::filter::Sizing;
use crate::id::SecretKey;
use crate::nulls::caching::NegativeCaching;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// How long an insert may be under way, from its sending until its answer is handled.
pub(crate) const INSERT: Duration = SECOND;

/// Ids remembered as found at the most, whatever the capacity: 16 MB.
pub(crate) const MOST_FOUND: u64 = 1_000_000;

/// The settings of filter, nulls and rebuilds. Those without a setter are constants, which tests make
/// smaller.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "some are about a filter in Redis"))]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) sizing: Sizing,
    pub(crate) null_ttl: Duration,
    /// Nulls written in a second after 404s, so that a flood cannot fill Redis with them.
    pub(crate) nulls_per_second: u32,
    /// How long a removal is remembered; none to have it follow the rebuild schedule.
    pub(crate) removed_ttl: Option<Duration>,
    pub(crate) longest_transaction: Duration,
    /// For how long a new filter is not believed where it lacks an id; none where all processes insert already.
    pub(crate) settle: Duration,
    /// A rebuild takes no longer.
    pub(crate) longest_rebuild: Duration,
    pub(crate) handler_time: Duration,
    /// How many ids the record of recent inserts holds at the most, some 120 bytes each, and how many this process can repeat to
    /// a Redis that lost them.
    pub(crate) recent_ids: u64,
    /// Bytes of nulls in this process: some 23,800 of them.
    pub(crate) null_cache_bytes: u64,
    pub(crate) check_deadline: Duration,
    /// Bytes that copies of filters may take in this process, those of all guards together.
    pub(crate) copy_limit: u64,
    /// Checks under way at once; any above are unknown at once.
    pub(crate) checks_in_flight: u32,
    pub(crate) accept_eviction: bool,
    /// The share of ids by which a rebuild may fall short of the filter it replaces.
    pub(crate) shrink_limit: f64,
    /// The key the application gave.
    pub(crate) secret_key: Option<SecretKey>,
    /// Whether it only looks at the filter in Redis, as the command does: it joins without writing, does not count as a process
    /// and repeats, samples and copies nothing.
    pub(crate) observes: bool,
}

impl Settings {
    /// Returns the defaults for a filter of this name.
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            sizing: Sizing::DEFAULT,
            null_ttl: NegativeCaching::new().ttl,
            nulls_per_second: 1_000,
            removed_ttl: None,
            longest_transaction: 15 * MINUTE,
            settle: 30 * MINUTE,
            longest_rebuild: 105 * MINUTE,
            handler_time: NegativeCaching::new().handler_time,
            recent_ids: 1_000_000,
            null_cache_bytes: 8 << 20,
            copy_limit: 64 << 20,
            check_deadline: Duration::from_millis(25),
            checks_in_flight: 4_096,
            accept_eviction: false,
            shrink_limit: 0.1,
            secret_key: None,
            observes: false,
        }
    }

    /// How far back the record of recent inserts reaches: over the longest transaction, what an insert may take and the
    /// handler's time, each twice over.
    /// A record's old deletion may commit as late as its new creation, and be told as much later again; a
    /// 404 may have been read from a replica that lags.
    pub(crate) fn record_life(&self) -> Duration {
        (self.longest_transaction + INSERT + self.handler_time) * 2
    }
}

/// The bounds of the settings.
pub(crate) mod bounds {
    use super::{Duration, HOUR, RangeInclusive, SECOND};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    pub(crate) const NULL_TTL: RangeInclusive<Duration> = SECOND..=HOUR;
    pub(crate) const LONGEST_TRANSACTION: RangeInclusive<Duration> = SECOND..=DAY;
    pub(crate) const HANDLER_TIME: RangeInclusive<Duration> = Duration::from_millis(100)..=HOUR;
    pub(crate) const LANE_CONCURRENCY: RangeInclusive<u64> = 1..=100_000;
    pub(crate) const LANE_RATE: RangeInclusive<u64> = 1..=1_000_000;
    pub(crate) const AUDITS: RangeInclusive<u64> = 0..=10_000;
}

pub(crate) fn duration(
    setting: &'static str,
    value: Duration,
    bounds: &RangeInclusive<Duration>,
) -> Result<(), SettingError> {
    SettingError::bounded(setting, value, bounds)
}

pub(crate) fn number(
    setting: &'static str,
    value: impl Into<u64>,
    bounds: &RangeInclusive<u64>,
) -> Result<(), SettingError> {
    SettingError::bounded(setting, value.into(), bounds)
}

/// Judges a filter's name, which becomes part of Redis keys.
pub(crate) fn name(name: &str) -> Result<(), SettingError> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
    if fits {
        return Ok(());
    }
    let reason = format!("filter name {name:?} is not 1 to 64 of A-Z a-z 0-9 _ . : -");
    Err(SettingError::Invalid { setting: "builder", reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_steer_a_key() {
        for fits in ["users", "v1:users.eu-west_2", &"x".repeat(64)] {
            assert!(name(fits).is_ok(), "{fits}");
        }
        for wrong in ["", "us ers", "us{e}rs", "users\r\n", "benützer", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_defaults_are_within_the_bounds() {
        let settings = Settings::new("users".into());
        assert!(bounds::NULL_TTL.contains(&settings.null_ttl));
        assert!(bounds::LONGEST_TRANSACTION.contains(&settings.longest_transaction));
        assert!(bounds::HANDLER_TIME.contains(&settings.handler_time));
        assert_eq!(Sizing::new(1_000_000, 0.001), Ok(Sizing::DEFAULT));
    }
}
