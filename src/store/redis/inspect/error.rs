//! Why nothing can be told.

use crate::error::{SettingError, StoreError};
use crate::id::InvalidId;

/// Why a filter cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// URL or name cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Redis did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A text is no id.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// The filter's secret key is not in Redis: it has to be given.
    #[error("the filter's secret key is not kept in redis")]
    NoKey,
}
