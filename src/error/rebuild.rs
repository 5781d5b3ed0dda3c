//! What a rebuild reports.

use super::{BoxError, StoreError};
use crate::id::InvalidId;

/// Why a rebuild did not put a new filter live. The filter that was live still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The guard was built without a source.
    #[error("no source to rebuild from")]
    NoSource,
    /// Another process is rebuilding.
    #[error("another process is rebuilding")]
    Busy,
    /// The filter was built from a source with another [`identity`](crate::rebuild::RebuildSource::identity).
    #[error("the source is {own:?}, and the filter was built from {filters:?}")]
    OtherSource {
        /// What this process's source reads.
        own: String,
        /// What the filter was built from.
        filters: String,
    },
    /// The source failed.
    #[error("the source failed")]
    Source(#[source] BoxError),
    /// The source gave an id that every check refuses as invalid.
    #[error("the source gave an invalid id after {after} valid ones")]
    InvalidId {
        /// How many ids had been read before it.
        after: u64,
        /// What is wrong with it.
        source: InvalidId,
    },
    /// The source ended well and gave no id at all: an empty view must not go live unless the
    /// application says that it may be empty.
    #[error("the source gave no ids")]
    Empty,
    /// The source gave far fewer ids than the live filter was built from.
    #[error("the source gave {found} ids where the live filter has {previous}: more than {:.0} % fewer", limit * 100.0)]
    Shrunk {
        /// How many ids the live filter was built from.
        previous: u64,
        /// How many the source gave.
        found: u64,
        /// The share that may be missing, 0 to 1.
        limit: f64,
    },
    /// The ids fit no filter that there can be, the source outgrew its filter at every scan, or the rebuild took too long.
    #[error("{reason}")]
    GivenUp {
        /// What has happened, in words.
        reason: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// Some shards keep the filter that they had: the next rebuild is theirs. The others have a new one.
    #[error("{failures} of {all} shards were not rebuilt")]
    Shards {
        /// How many were not.
        failures: u64,
        /// How many there were to rebuild.
        all: u64,
        /// Why the first of them was not.
        #[source]
        first: StoreError,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl RebuildError {
    /// Returns what to do about it, in a sentence or two.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::NoSource => "Give the builder a source, or leave rebuilds to another process.",
            Self::Busy => "The filter of the other process serves this one, too.",
            Self::OtherSource { .. } => {
                "Give each set of records a name of its own. If it is the same set elsewhere, call rebuild_accepting_loss once."
            }
            Self::Source(_) => {
                "See that the database answers the source's queries. The error names the first cause."
            }
            Self::InvalidId { .. } => "Have the source give ids as requests name them.",
            Self::Empty => {
                "See that the source reads the right table. If that may be empty, call rebuild_accepting_loss."
            }
            Self::Shrunk { .. } => {
                "See that the source reads the right table, and all of it. After a purge, call rebuild_accepting_loss."
            }
            Self::GivenUp { advice, .. } => advice,
            Self::Shards { first, .. } => first.advice(),
            Self::Store(error) => error.advice(),
        }
    }
}
