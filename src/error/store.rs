//! What a store reports.

use std::time::Duration;

use crate::refusal::Refusal;
use crate::verdict::Doubt;

/// Why the store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to Redis.
    #[error("no connection to redis: {reason}")]
    Disconnected {
        /// What stands in the way; [`Doubt::Disconnected`] where nothing answers.
        doubt: Doubt,
        /// What the last attempt met, in words.
        reason: String,
    },
    /// Redis did not answer in time.
    #[error("redis did not answer within {deadline:?}")]
    Timeout {
        /// The deadline.
        deadline: Duration,
    },
    /// Redis refused, with its own error code first.
    #[error("redis refused: {reason}")]
    Refused {
        /// What the refusal means.
        doubt: Doubt,
        /// Redis's words.
        reason: String,
    },
    /// Redis answered something that makes no sense as an answer.
    #[error("redis answered {step} with {answer}")]
    Odd {
        /// What was asked.
        step: &'static str,
        /// What was answered, shortened.
        answer: String,
    },
    /// A key holds what no version of this crate put there.
    #[error("key {key:?}: {reason}")]
    Foreign {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process uses another secret key for the same filter.
    #[error("the filter uses secret key {theirs:08x}, this process has key {ours:08x}")]
    OtherKey {
        /// The id of this process's key.
        ours: u32,
        /// The id of the key the filter's metadata names.
        theirs: u32,
    },
    /// Redis has no room for the filter that is to be built, beside the live one.
    #[error(
        "redis has no room for the filter: with it the data would take {needed} bytes of {limit}"
    )]
    NoRoom {
        /// The bytes that Redis's data would take with it.
        needed: u64,
        /// The bytes that they may take, Redis's `maxmemory`.
        limit: u64,
    },
    /// A newer rebuild has taken over.
    #[error("a newer rebuild took over before {step}")]
    Fenced {
        /// The step that found out.
        step: &'static str,
    },
    /// The filter being built was lost or changed by somebody else.
    #[error("the filter being built was lost or changed before {step}")]
    Lost {
        /// The step that found out.
        step: &'static str,
    },
    /// The journal does not prove that no insert is missing.
    #[error(
        "the journal has a gap, and no rebuild goes live before transactions from before it are over: {reason}"
    )]
    JournalGap {
        /// What is missing.
        reason: String,
    },
    /// Redis is another process than the one the rebuild began on.
    #[error("redis is another process than when the rebuild began")]
    OtherRedis,
    /// The filter kept being replaced while ids were added.
    #[error("the filter kept being replaced")]
    Changing,
}

impl StoreError {
    /// The system gives no random bytes.
    pub(crate) fn no_random(error: getrandom::Error) -> Self {
        Self::Refused {
            doubt: Doubt::Refused(Refusal::OTHER),
            reason: format!("the system's random source: {error}"),
        }
    }
}
