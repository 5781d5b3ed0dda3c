//! A guard that stands in front of a filter which another system writes.

use std::sync::Arc;

use super::layer::BloomGuard;
use crate::store::foreign::handle::ForeignHandle;

/// Of other systems' filters, with the crate feature `redis`.
impl BloomGuard {
    /// Returns the filter that another system writes, if this guard stands in front of one:
    /// [`Builder::foreign`](crate::Builder::foreign).
    #[must_use]
    pub fn foreign(&self) -> Option<ForeignHandle> {
        self.shared.start();
        let store = self.shared.foreign.clone()?;
        Some(ForeignHandle::new(store, Arc::clone(&self.shared.extractor)))
    }
}
