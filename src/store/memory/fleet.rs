//! The mode of all guards of this store: with the filter in one process, of its clones.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::StoreError;
use crate::mode::{Mode, SharedMode};
use crate::store::FleetChange;

#[derive(Default)]
pub(super) struct Fleet {
    /// Its number is how often it was set.
    pub(super) mode: Arc<SharedMode>,
    /// When a rebuild was asked for, µs.
    pub(super) asked_us: AtomicI64,
}

impl Fleet {
    /// Changes it; `live` is the live generation, 0 if there is none.
    pub(super) fn change(
        &self,
        change: FleetChange,
        live: i64,
        now_us: i64,
    ) -> Result<(), StoreError> {
        match change {
            FleetChange::Mode(mode) => self.mode.change(mode),
            FleetChange::Enforce { seen, after } => {
                let (_, number) = self.mode.numbered();
                let is_same = seen.metadata.iter().all(|seen| seen.mode_number == number);
                if !is_same || after.metadata.iter().any(|after| live <= after.now_us) {
                    return Err(StoreError::overtaken());
                }
                // One that was set meanwhile has this number, too, and is milder.
                self.mode.note(Mode::Enforce, number + 1);
            }
            FleetChange::Rebuild => self.asked_us.store(now_us, Ordering::SeqCst),
        }
        Ok(())
    }
}
