//! What decides, a store, its nulls and its rebuilds have to be told, with defaults and bounds.

use std::str::FromStr;
use std::time::Duration;

use http::{Method, StatusCode};
use smallvec::SmallVec;

use crate::error::SettingError;
use crate::filter::Sizing;
use crate::id::{InvalidId, SecretKey};
use crate::mode::Mode;
use crate::nulls::rules::NegativeCaching;

const MINUTE: Duration = Duration::from_secs(60);

/// How long an insert may be under way, from its sending until its answer is handled.
pub(crate) const INSERT: Duration = Duration::from_secs(1);

/// What to do with a request when the answer about its id is unknown. It is never refused with 404.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUnknown {
    /// It enters the [lane](crate::Builder::lane), or is answered 503 with `Retry-After`.
    #[default]
    PassLimited,
    /// It passes.
    Pass,
    /// It is answered 503 with `Retry-After`.
    Shed,
}

/// What to do with a request that names something that cannot be an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInvalid {
    /// Refuse it with 404: no record can have such an id. A list of more than [`Id::MAX_LISTED`](crate::Id::MAX_LISTED) ids is refused
    /// with 400.
    #[default]
    NotFound,
    /// Refuse it with 400.
    BadRequest,
    /// Let it pass, unchecked. The handler must reject such ids, and lists that are too long, before it asks the
    /// database, or they are a way around the guard.
    Pass,
}

impl OnInvalid {
    pub(crate) fn status(self, reason: InvalidId) -> Option<StatusCode> {
        match self {
            // Some of the ids may exist.
            Self::NotFound if matches!(reason, InvalidId::TooMany { .. }) => {
                Some(StatusCode::BAD_REQUEST)
            }
            Self::NotFound => Some(StatusCode::NOT_FOUND),
            Self::BadRequest => Some(StatusCode::BAD_REQUEST),
            Self::Pass => None,
        }
    }
}

/// The settings of decisions, filter, nulls and rebuilds. Those without a setter are constants, which tests make smaller.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "some are about a filter in Redis"))]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) sizing: Sizing,
    pub(crate) methods: SmallVec<[Method; 2]>,
    pub(crate) on_invalid: OnInvalid,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) lane_concurrency: u32,
    pub(crate) lane_per_second: u32,
    pub(crate) audits: u32,
    pub(crate) missed: u64,
    pub(crate) nulls: NegativeCaching,
    /// How long a removal is remembered; none to have it follow the rebuild schedule.
    pub(crate) removed_ttl: Option<Duration>,
    pub(crate) longest_transaction: Duration,
    pub(crate) settle: Duration,
    pub(crate) longest_rebuild: Duration,
    /// The limit of the record of recent inserts, of some 120 bytes an id, and of what this process can repeat to a Redis that lost them.
    pub(crate) recent_ids: u64,
    pub(crate) check_deadline: Duration,
    pub(crate) copy_limit: u64,
    pub(crate) accept_eviction: bool,
    pub(crate) shrink_limit: f64,
    pub(crate) secret_key: Option<SecretKey>,
    /// Whether this guard is an observer, as the command's: it joins without writing, does not count as a process, and neither repeats
    /// nor copies.
    pub(crate) observes: bool,
}

impl Settings {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            sizing: Sizing::DEFAULT,
            methods: SmallVec::from_buf([Method::GET, Method::HEAD]),
            on_invalid: OnInvalid::default(),
            on_unknown: OnUnknown::default(),
            lane_concurrency: 64,
            lane_per_second: 500,
            audits: 1,
            missed: 1 << 17,
            nulls: NegativeCaching::new(),
            removed_ttl: None,
            longest_transaction: 15 * MINUTE,
            settle: 30 * MINUTE,
            longest_rebuild: 105 * MINUTE,
            recent_ids: 1_000_000,
            copy_limit: 64 << 20,
            check_deadline: Duration::from_millis(25),
            accept_eviction: false,
            shrink_limit: 0.1,
            secret_key: None,
            observes: false,
        }
    }

    /// Returns how far back the record of recent inserts reaches: twice the longest transaction, insert and handler's time. A
    /// deletion may commit as late as the creation after it, and be told as much later; a 404 may come from a replica that lags.
    pub(crate) fn record_life(&self) -> Duration {
        (self.longest_transaction + INSERT + self.nulls.handler_time) * 2
    }
}

pub(crate) fn name(name: &str) -> Result<(), SettingError> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
    if fits {
        return Ok(());
    }
    let reason = format!("filter name {name:?} is not 1 to 64 of A-Z a-z 0-9 _ . : -");
    Err(SettingError::Invalid { setting: "builder", reason })
}

/// Reads what `Display` writes, in capitals or not.
impl FromStr for Mode {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut modes = [Self::Enforce, Self::Shadow, Self::Off].into_iter();
        let found = modes.find(|mode| mode.to_string().eq_ignore_ascii_case(text));
        let reason = || format!("{text:?} is none of enforce, shadow, off");
        found.ok_or_else(|| SettingError::Invalid { setting: "mode", reason: reason() })
    }
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
}
