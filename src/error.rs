//! What can go wrong, by who has to act on it.

use std::fmt;
use std::time::Duration;

use crate::filter::SizingError;
use crate::id::InvalidId;

/// An error of the application's own making, whatever its type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A setting that the builder cannot accept.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The filter's name is not `[A-Za-z0-9_.:-]{1,64}`.
    Name {
        /// The name as given.
        name: String,
    },
    /// The capacity or the false-positive rate cannot be had.
    Sizing(SizingError),
    /// The Redis URL cannot be read. The URL is not repeated here, as it may hold a password.
    RedisUrl {
        /// The reason.
        source: BoxError,
    },
    /// The URL asks for TLS, and the crate was built without the `tls` feature.
    TlsFeature,
    /// The system's random source gave no key.
    Random {
        /// What it reported, in words.
        reason: String,
    },
    /// A duration is outside its bounds.
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
    Number {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: f64,
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
    },
    /// A cron expression cannot be read.
    Cron {
        /// The expression as given.
        expression: String,
        /// The reason.
        source: BoxError,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => {
                write!(f, "filter name {name:?} is not 1 to 64 of A-Z a-z 0-9 _ . : -")
            }
            Self::Sizing(_) => f.write_str("the filter cannot be sized"),
            Self::RedisUrl { .. } => f.write_str("the redis url cannot be read"),
            Self::Random { reason } => write!(f, "no random key could be drawn: {reason}"),
            Self::TlsFeature => f.write_str("a rediss:// url needs the crate feature `tls`"),
            Self::Duration { setting, value, min, max } => {
                write!(f, "{setting} of {value:?} is not within {min:?} and {max:?}")
            }
            Self::Number { setting, value, min, max } => {
                write!(f, "{setting} of {value} is not within {min} and {max}")
            }
            Self::Cron { expression, .. } => {
                write!(f, "cron expression {expression:?} cannot be read")
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Sizing(error) => Some(error),
            Self::RedisUrl { source } | Self::Cron { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl From<SizingError> for ConfigError {
    fn from(error: SizingError) -> Self {
        Self::Sizing(error)
    }
}

/// Why the store did not do what it was asked to.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to Redis.
    Disconnected {
        /// What the last attempt met, in words.
        reason: String,
    },
    /// Redis did not answer in time.
    Timeout {
        /// The deadline.
        deadline: Duration,
    },
    /// Redis refused, with its own error code first.
    Refused {
        /// Redis's words.
        reason: String,
    },
    /// Redis answered something that makes no sense as an answer.
    Odd {
        /// What was asked.
        step: &'static str,
        /// What was answered, shortened.
        answer: String,
    },
    /// A key holds what no version of this crate put there.
    Foreign {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process uses another secret key for the same filter.
    OtherKey {
        /// The id of this process's key.
        ours: u32,
        /// The id of the key the filter's metadata names.
        theirs: u32,
    },
    /// A newer rebuild has taken over.
    Fenced {
        /// The step that found out.
        step: &'static str,
    },
    /// The filter being built was lost or changed by somebody else.
    Lost {
        /// The step that found out.
        step: &'static str,
    },
    /// The journal does not prove that no insert is missing.
    JournalGap {
        /// What is missing.
        reason: String,
    },
    /// Redis is another process than the one the rebuild began on.
    OtherRedis,
    /// The filter kept being replaced while ids were added.
    Changing,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected { reason } => write!(f, "no connection to redis: {reason}"),
            Self::Timeout { deadline } => write!(f, "redis did not answer within {deadline:?}"),
            Self::Refused { reason } => write!(f, "redis refused: {reason}"),
            Self::Odd { step, answer } => write!(f, "redis answered {step} with {answer}"),
            Self::Foreign { key, reason } => write!(f, "key {key:?}: {reason}"),
            Self::OtherKey { ours, theirs } => write!(
                f,
                "the filter uses secret key {theirs:08x}, this process has key {ours:08x}"
            ),
            Self::Fenced { step } => write!(f, "a newer rebuild took over before {step}"),
            Self::Lost { step } => {
                write!(f, "the filter being built was lost or changed before {step}")
            }
            Self::JournalGap { reason } => write!(f, "the journal has a gap: {reason}"),
            Self::OtherRedis => f.write_str("redis is another process than when the rebuild began"),
            Self::Changing => f.write_str("the filter kept being replaced"),
        }
    }
}

impl std::error::Error for StoreError {}

/// Why an insert was not acknowledged. The record must not be committed then: retry, or fail the
/// write.
#[derive(Debug)]
#[non_exhaustive]
pub enum InsertError {
    /// The id is one that every check refuses as invalid.
    Invalid(InvalidId),
    /// The store did not acknowledge the id. It may have been added all the same, which does no harm:
    /// an insert can be repeated freely.
    Store(StoreError),
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid(_) => "the id is invalid",
            Self::Store(_) => "the id was not acknowledged",
        })
    }
}

impl std::error::Error for InsertError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}

impl From<InvalidId> for InsertError {
    fn from(error: InvalidId) -> Self {
        Self::Invalid(error)
    }
}

impl From<StoreError> for InsertError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Why a removal was not remembered. Nothing is hidden and nothing is lost by that: requests for the id
/// reach the handler.
#[derive(Debug)]
#[non_exhaustive]
pub enum RemoveError {
    /// The id is one that every check refuses as invalid.
    Invalid(InvalidId),
    /// The store did not do it.
    Store(StoreError),
}

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid(_) => "the id is invalid",
            Self::Store(_) => "the removal was not remembered",
        })
    }
}

impl std::error::Error for RemoveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}

impl From<InvalidId> for RemoveError {
    fn from(error: InvalidId) -> Self {
        Self::Invalid(error)
    }
}

impl From<StoreError> for RemoveError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Why a rebuild did not put a new filter live. The filter that was live still is.
#[derive(Debug)]
#[non_exhaustive]
pub enum RebuildError {
    /// The guard was built without a source.
    NoSource,
    /// Another rebuild is under way, here or in another process.
    Busy,
    /// The source failed.
    Source(BoxError),
    /// The source gave an id that every check refuses as invalid.
    InvalidId {
        /// How many ids had been read before it.
        after: u64,
        /// What is wrong with it.
        source: InvalidId,
    },
    /// The source ended well and gave no id at all: an empty view must not go live unless the
    /// application says that it may be empty.
    Empty,
    /// The source gave far fewer ids than the live filter was built from.
    Shrunk {
        /// How many ids the live filter was built from.
        previous: u64,
        /// How many the source gave.
        found: u64,
        /// The share that may be missing, 0 to 1.
        limit: f64,
    },
    /// The ids do not fit the largest filter there can be.
    Sizing(SizingError),
    /// The source gave more ids at every scan than the filter was then sized for.
    Outgrown {
        /// How often it was scanned.
        scans: u32,
        /// The ids the last filter was sized for.
        capacity: u64,
    },
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for RebuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSource => f.write_str("no source to rebuild from"),
            Self::Busy => f.write_str("another rebuild is under way"),
            Self::Source(_) => f.write_str("the source failed"),
            Self::InvalidId { after, .. } => {
                write!(f, "the source gave an invalid id after {after} valid ones")
            }
            Self::Empty => f.write_str("the source gave no ids"),
            Self::Shrunk { previous, found, limit } => write!(
                f,
                "the source gave {found} ids where the live filter has {previous}: more than {:.0} % fewer",
                limit * 100.0
            ),
            Self::Sizing(_) => f.write_str("the filter cannot be sized"),
            Self::Outgrown { scans, capacity } => write!(
                f,
                "the source outgrew its filter in each of {scans} scans, at last one for {capacity} ids"
            ),
            Self::Store(_) => f.write_str("the store failed"),
        }
    }
}

impl std::error::Error for RebuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(error) => Some(error.as_ref()),
            Self::InvalidId { source, .. } => Some(source),
            Self::Sizing(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for RebuildError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SizingError> for RebuildError {
    fn from(error: SizingError) -> Self {
        Self::Sizing(error)
    }
}
