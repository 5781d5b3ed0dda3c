//! What a check asks for.

use std::sync::Arc;

use super::known::Known;
use super::layout::Place;
use super::trust::Trust;
use crate::filter::Generation;
use crate::verdict::Doubt;

/// What a check asks for.
pub(super) struct Asked {
    /// What the place was computed by.
    pub(super) known: Arc<Known>,
    pub(super) place: Place,
}

impl Asked {
    /// Computes where an id is.
    ///
    /// # Errors
    ///
    /// Why there is no filter to ask.
    pub(super) fn new(trust: &Trust, known: Arc<Known>, id: &[u8]) -> Result<Self, Doubt> {
        if let Err(Doubt::NoFilter) = known.believed() {
            return Err(Doubt::NoFilter);
        }
        let size = *known.size.as_ref().map_err(|_| Doubt::Foreign)?;
        let place = trust.layout.place(size, id);
        Ok(Self { known, place })
    }

    /// Returns when the filter was said to be whole.
    pub(super) fn generation(&self) -> Option<Generation> {
        Some(self.known.believed().ok()?.record.generation)
    }
}
