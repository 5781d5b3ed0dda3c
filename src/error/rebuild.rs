//! What a rebuild reports.

use std::fmt;
use std::time::Duration;

use super::{BoxError, StoreError};
use crate::filter::SizingError;
use crate::id::InvalidId;

/// Why a rebuild did not put a new filter live. The filter that was live still is.
#[derive(Debug)]
#[non_exhaustive]
pub enum RebuildError {
    /// The guard was built without a source.
    NoSource,
    /// Another process is rebuilding.
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
    /// It took longer than the journal of inserts reaches back, 105 minutes: a scan that hangs must
    /// not keep others from rebuilding.
    TooLong {
        /// The longest time it may take.
        limit: Duration,
    },
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for RebuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSource => f.write_str("no source to rebuild from"),
            Self::Busy => f.write_str("another process is rebuilding"),
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
            Self::Sizing(error) => error.fmt(f),
            Self::Outgrown { scans, capacity } => write!(
                f,
                "the source outgrew its filter in each of {scans} scans, at last one for {capacity} ids"
            ),
            Self::TooLong { limit } => {
                write!(f, "the rebuild took longer than its limit of {limit:?}")
            }
            Self::Store(_) => f.write_str("the store failed"),
        }
    }
}

impl std::error::Error for RebuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(error) => Some(error.as_ref()),
            Self::InvalidId { source, .. } => Some(source),
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
