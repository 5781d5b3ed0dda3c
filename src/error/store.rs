//! What a store reports.

use std::fmt;
use std::time::Duration;

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
            Self::JournalGap { reason } => write!(
                f,
                "the journal has a gap, and no rebuild goes live before transactions from before it are \
                 over: {reason}"
            ),
            Self::OtherRedis => f.write_str("redis is another process than when the rebuild began"),
            Self::Changing => f.write_str("the filter kept being replaced"),
        }
    }
}

impl std::error::Error for StoreError {}
