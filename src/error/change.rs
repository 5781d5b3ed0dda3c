//! What an insert and a removal report.

use std::fmt;

use super::StoreError;
use crate::id::InvalidId;

/// Why an insert was not acknowledged, or a removal not remembered.
///
/// After an insert, the record must not be committed: retry, or fail the write. After a removal nothing is
/// hidden and nothing is lost: requests for the id reach the handler.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// The id is one that every check refuses as invalid.
    Invalid(InvalidId),
    /// The store did not do it, or did not say so. Both calls can be repeated freely.
    Store(StoreError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => write!(f, "the id is invalid: {error}"),
            Self::Store(error) => write!(f, "the store did not acknowledge it: {error}"),
        }
    }
}

impl std::error::Error for ChangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Its words are in ours already.
        match self {
            Self::Invalid(error) => error.source(),
            Self::Store(error) => error.source(),
        }
    }
}

impl From<InvalidId> for ChangeError {
    fn from(error: InvalidId) -> Self {
        Self::Invalid(error)
    }
}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
