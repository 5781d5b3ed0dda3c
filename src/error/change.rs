//! What an insert and a removal report.

use std::fmt;

use super::StoreError;
use crate::id::InvalidId;

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
        match self {
            Self::Invalid(error) => write!(f, "the id is invalid: {error}"),
            Self::Store(error) => write!(f, "the id was not acknowledged: {error}"),
        }
    }
}

impl std::error::Error for InsertError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Its words are in ours already.
        match self {
            Self::Invalid(error) => error.source(),
            Self::Store(error) => error.source(),
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
        match self {
            Self::Invalid(error) => write!(f, "the id is invalid: {error}"),
            Self::Store(error) => write!(f, "the removal was not remembered: {error}"),
        }
    }
}

impl std::error::Error for RemoveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Its words are in ours already.
        match self {
            Self::Invalid(error) => error.source(),
            Self::Store(error) => error.source(),
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
