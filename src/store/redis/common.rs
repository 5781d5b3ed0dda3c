//! What the shards of a filter have in common, and what the log says once for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::filter::Header;
use crate::mode::{Mode, SharedMode};
use crate::settings::Settings;

pub(crate) struct Common {
    /// The settings of one shard.
    pub(crate) settings: Settings,
    /// The newest mode of all processes that this one knows: any shard may tell of it.
    pub(crate) mode: Arc<SharedMode>,
    told_of_sizing: AtomicBool,
}

impl Common {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, mode: Arc::default(), told_of_sizing: AtomicBool::default() }
    }

    pub(super) fn note_mode(&self, mode: Mode, number: i64) {
        if let Some(mode) = self.mode.note(mode, number) {
            let filter = &*self.settings.name;
            tracing::info!(parent: None, filter, ?mode, "the mode of all processes has changed");
        }
    }

    /// Warns if the live filter was sized by other settings.
    pub(super) fn compare_sizing(&self, live: &Header) {
        let rate = self.settings.sizing.rate as f32;
        let capacity = self.settings.sizing.share;
        // A rebuild that found more ids than its capacity has made room for them.
        let same_capacity =
            live.capacity == capacity || live.capacity > capacity && live.items > capacity;
        if live.rate.to_bits() == rate.to_bits() && same_capacity
            || self.told_of_sizing.swap(true, Ordering::Relaxed)
        {
            return;
        }
        tracing::warn!(
            parent: None,
            filter = &*self.settings.name,
            capacity,
            %rate,
            live_capacity = live.capacity,
            live_rate = %live.rate,
            "the live filter was sized by other settings than this process's: another process's, or those of before. \
             Each rebuild takes those of its process: give all processes the same"
        );
    }
}
