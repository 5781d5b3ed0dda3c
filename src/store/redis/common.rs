//! What the shards of a filter have in common, and what the log says once for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::filter::Header;
use crate::mode::{Mode, SharedMode};
use crate::settings::Settings;
use crate::store::redis::incarnation::GRACE;

/// The least number of ids that a shard's record of recent inserts holds, where the filter's may hold as many.
const RECENT_IDS: u64 = 10_000;

pub(crate) struct Common {
    /// The settings of one shard.
    pub(crate) settings: Settings,
    /// The [`GRACE`] in so many shards: a process joins them a few at a time, and repeats its inserts to a few at a time.
    pub(crate) grace: Duration,
    /// The newest mode of all processes that this one knows: any shard may tell of it.
    pub(crate) mode: Arc<SharedMode>,
    told_of_sizing: AtomicBool,
}

impl Common {
    pub(crate) fn new(settings: &Settings) -> Self {
        let grace = GRACE * settings.sizing.shards.div_ceil(64);
        Self {
            settings: of_one(settings),
            grace,
            mode: Arc::default(),
            told_of_sizing: AtomicBool::default(),
        }
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

fn of_one(settings: &Settings) -> Settings {
    let all = settings.recent_ids;
    let sizing = settings.sizing.one();
    let shards = u64::from(settings.sizing.shards);
    let recent_ids = (all / shards).max(RECENT_IDS).min(all);
    Settings { recent_ids, sizing, ..settings.clone() }
}
