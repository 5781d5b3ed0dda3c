//! What a store reports.

#[cfg(feature = "redis")]
use std::time::Duration;

use crate::id::InvalidId;
use crate::refusal::Refusal;
use crate::verdict::Doubt;

/// Why the store did not do what it was asked to.
///
/// After an insert the record must not be committed: retry, or fail the write. After a removal nothing is hidden and nothing is
/// lost: requests for the id reach the handler. Every call can be repeated freely.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The id is one that every check refuses as invalid. Nothing was asked.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// Redis gave no answer, or there is no connection to it. It may have done what it was asked to.
    #[error("{doubt}: {reason}")]
    NoAnswer {
        /// What stands in the way; [`Doubt::Disconnected`] where there is no connection, [`Doubt::Timeout`] where it is silent.
        doubt: Doubt,
        /// What was met, in words.
        reason: String,
    },
    /// Redis refused.
    #[error("redis refused: {reason}")]
    Refused {
        /// What the refusal means.
        doubt: Doubt,
        /// Redis's words, its own error code first.
        reason: String,
    },
    /// What Redis answered, or what has happened meanwhile, lets nothing be done.
    #[error("{reason}")]
    GivenUp {
        /// What it means.
        doubt: Doubt,
        /// What has happened, in words.
        reason: String,
    },
}

impl StoreError {
    /// Returns what to do about it, in a sentence or two.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::InvalidId(_) => "Refuse the record: no request can name it.",
            failed => failed.doubt().advice(),
        }
    }

    pub(crate) const fn doubt(&self) -> Doubt {
        match self {
            Self::InvalidId(_) => Doubt::Refused(Refusal::UNFIT),
            Self::NoAnswer { doubt, .. }
            | Self::Refused { doubt, .. }
            | Self::GivenUp { doubt, .. } => *doubt,
        }
    }

    pub(crate) fn given_up(refusal: Refusal, reason: impl Into<String>) -> Self {
        Self::GivenUp { doubt: Doubt::Refused(refusal), reason: reason.into() }
    }

    pub(crate) fn lost(step: &str) -> Self {
        let reason = format!("the filter being built was lost or changed before {step}");
        Self::given_up(Refusal::LOST, reason)
    }

    /// A process gave up repeating its inserts. Their transactions may be open for this long.
    #[cfg(feature = "redis")]
    pub(crate) fn unvouched(open: Option<Duration>) -> Self {
        let open = open.map_or_else(String::new, |open| format!(" for {open:?}"));
        let reason = format!("inserts that no process can repeat may still become visible{open}");
        Self::given_up(Refusal::UNVOUCHED, reason)
    }

    pub(crate) fn overtaken() -> Self {
        let reason =
            "another call has set the mode of all processes, or redis is another than before";
        Self::given_up(Refusal::OVERTAKEN, reason)
    }

    pub(crate) fn no_random(error: getrandom::Error) -> Self {
        let reason = format!("the system's random source: {error}");
        Self::Refused { doubt: Doubt::Refused(Refusal::OTHER), reason }
    }
}

#[cfg(feature = "redis")]
impl StoreError {
    pub(crate) fn is(&self, refusal: Refusal) -> bool {
        self.doubt() == Doubt::Refused(refusal)
    }

    /// Redis answers, and is not the one that the session met.
    pub(crate) fn left(reason: impl Into<String>) -> Self {
        Self::GivenUp { doubt: Doubt::Disconnected, reason: reason.into() }
    }

    pub(crate) fn disconnected(reason: impl Into<String>) -> Self {
        Self::NoAnswer { doubt: Doubt::Disconnected, reason: reason.into() }
    }

    pub(crate) fn not_yet() -> Self {
        Self::disconnected("not connected yet")
    }

    /// Nothing was asked, as this has kept the process from joining Redis.
    pub(crate) fn not_joined(because: &Self) -> Self {
        Self::NoAnswer { doubt: because.doubt(), reason: because.reason() }
    }

    /// Returns the reason in words, without what its doubt says already.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::NoAnswer { doubt, reason } if *doubt != Doubt::Timeout => reason.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn late(deadline: Duration) -> Self {
        Self::NoAnswer { doubt: Doubt::Timeout, reason: format!("{deadline:?}") }
    }

    pub(crate) fn no_room(needed: u64, limit: u64) -> Self {
        let reason = format!(
            "redis has no room for the filter: with it the data would take {needed} bytes of {limit}"
        );
        Self::given_up(Refusal::OUT_OF_MEMORY, reason)
    }

    /// A key holds what no version of this crate put there, or what this one cannot change.
    pub(crate) fn unfit(key: &str, reason: &str) -> Self {
        Self::given_up(Refusal::UNFIT, format!("key {key:?}: {reason}"))
    }

    pub(crate) fn changing() -> Self {
        Self::GivenUp { doubt: Doubt::Suspect, reason: "the filter kept being replaced".to_owned() }
    }
}
