//! What an insert and a removal report.

use super::StoreError;
use crate::id::InvalidId;

/// Why an insert was not acknowledged, or a removal not remembered.
///
/// After an insert, the record must not be committed: retry, or fail the write. After a removal nothing is
/// hidden and nothing is lost: requests for the id reach the handler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The id is one that every check refuses as invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidId),
    /// The store did not do it, or did not say so. Both calls can be repeated freely.
    #[error(transparent)]
    Store(#[from] StoreError),
}
