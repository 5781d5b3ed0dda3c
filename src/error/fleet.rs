//! What a change of all processes reports.

use std::sync::Arc;

use super::{RebuildError, StoreError};

/// Why a change of how all processes act was not made.
///
/// They act as before then. Where a reply was lost, they may act as they were told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// Another call has set the mode meanwhile, Redis has lost or changed its data, or an older filter is live: nothing was
    /// changed.
    #[error("another call has set the mode of all processes, or redis is another than before")]
    Overtaken,
    /// No filter could be rebuilt.
    #[error(transparent)]
    Rebuild(#[from] Arc<RebuildError>),
    /// The store did not do it, or did not say so. The call can be repeated freely.
    #[error(transparent)]
    Store(#[from] StoreError),
}
