//! What is wrong with the settings.

use std::fmt;
use std::time::Duration;

use crate::filter::SizingError;

/// Settings that the builder cannot accept: all of them, in the order in which they were set.
pub struct ConfigError {
    problems: Vec<SettingError>,
}

impl ConfigError {
    pub(crate) const fn new(problems: Vec<SettingError>) -> Self {
        Self { problems }
    }

    /// Returns what is wrong: at least one thing.
    #[must_use]
    pub fn problems(&self) -> &[SettingError] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// As its `Display`: it is what a `main` prints that returns it.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

/// A setting that the builder cannot accept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The filter's name is not `[A-Za-z0-9_.:-]{1,64}`.
    #[error("filter name {name:?} is not 1 to 64 of A-Z a-z 0-9 _ . : -")]
    Name {
        /// The name as given.
        name: String,
    },
    /// Neither `Builder::in_process` nor `Builder::redis` says where the filter lives.
    #[error(
        "where does the filter live? `in_process()` keeps it in this process, for a service that never has two: each would refuse \
         what the other creates. `redis(url)`, with the crate feature `redis`, has all processes of the service share it."
    )]
    NoPlace,
    /// The filter cannot live in this process and in Redis.
    #[error("in_process and redis: the filter lives in one of the two")]
    TwoPlaces,
    /// A setting means nothing where the filter lives. It would be ignored, so it is refused.
    #[error("{setting} has no effect on {place}: leave it out")]
    NoEffect {
        /// The name of its setter.
        setting: &'static str,
        /// Where the filter lives.
        place: &'static str,
    },
    /// The capacity or the false-positive rate cannot be had.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// The Redis URL cannot be read. The URL is not repeated here, as it may hold a password.
    #[error(
        "the redis url cannot be read: {reason}; expected is redis://[user][:password@]host[:port][/database], or one of the other forms \
         that Builder::redis lists (in a password, / ? # @ and & are percent-encoded)"
    )]
    RedisUrl {
        /// The reason.
        reason: String,
    },
    /// The URL asks for TLS, and the crate was built without the `tls` feature.
    #[error("a rediss:// url needs the crate feature `tls`")]
    TlsFeature,
    /// What was given to `TlsSettings` as bytes cannot be read.
    #[error("tls: {reason}")]
    TlsPem {
        /// What, and why.
        reason: String,
    },
    /// There is a provider of credentials, and the URL has a password.
    #[error("credentials: the redis url has a password, too")]
    CredentialsTwice,
    /// A filter of another system is to be guarded in a Redis Cluster: its key and what the guard keeps beside it are in different
    /// slots.
    #[error(
        "a foreign filter is in one redis, not in a cluster: redis+cluster:// is for the guard's own"
    )]
    ForeignInCluster,
    /// The number of shards is none that there can be.
    #[error("shards of {value} is no power of two from 1 to {max}")]
    Shards {
        /// The number asked for.
        value: u32,
        /// The greatest there is.
        max: u32,
    },
    /// A filter in shards has no secret key. By its digest an id is told to be in a shard, before Redis is asked.
    #[error("shards need a secret_key, the same in all processes")]
    ShardsWithoutKey,
    /// The system's random source gave no key.
    #[error("no random key could be drawn: {reason}")]
    Random {
        /// What it reported, in words.
        reason: String,
    },
    /// A duration is outside its bounds.
    #[error("{setting} of {value:?} is not between {min:?} and {max:?}")]
    Duration {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: Duration,
        /// The least value.
        min: Duration,
        /// The greatest value.
        max: Duration,
    },
    /// A number is outside its bounds.
    #[error("{setting} of {value} is not between {min} and {max}")]
    Number {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: u64,
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// A cron expression cannot be read, or names no time to come.
    #[error("cron expression {expression:?} makes no schedule: {reason}")]
    Cron {
        /// The expression as given.
        expression: String,
        /// The reason.
        reason: String,
    },
}
