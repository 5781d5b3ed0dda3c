//! What the shards of a filter have in common, and what the log says once for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::filter::Header;
use crate::mode::{Mode, SharedMode};
use crate::settings::{INSERT, Settings};

pub(crate) struct Common {
    /// The settings of one shard.
    pub(crate) settings: Settings,
    /// The newest mode of all processes that this one knows: any shard may tell of it.
    pub(crate) mode: Arc<SharedMode>,
    /// How many shards settle.
    settling: AtomicUsize,
    told_of_sizing: AtomicBool,
    told_of_times: AtomicBool,
}

impl Common {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            mode: Arc::default(),
            settling: AtomicUsize::new(0),
            told_of_sizing: AtomicBool::default(),
            told_of_times: AtomicBool::default(),
        }
    }

    pub(super) fn note_mode(&self, mode: Mode, number: i64) {
        if let Some(mode) = self.mode.note(mode, number) {
            let filter = &*self.settings.name;
            tracing::info!(parent: None, filter, ?mode, "the mode of all processes has changed");
        }
    }

    /// Notes that a shard has begun to settle, or has settled.
    pub(super) fn note_settling(&self, settles: bool) {
        let filter = &*self.settings.name;
        let is_first = settles && self.settling.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first {
            tracing::info!(
                parent: None,
                filter,
                "the filter settles: it is new, or no process has polled it for a minute. Nothing is refused until it has; state() \
                 says for how long"
            );
        } else if !settles && self.settling.fetch_sub(1, Ordering::SeqCst) == 1 {
            tracing::info!(parent: None, filter, "the filter has settled: ids that it lacks are refused");
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

    /// Warns if the record does not reach back as this process's times have it; zero where no process has said.
    pub(super) fn compare_times(&self, reach: Duration) {
        let is_same = reach.as_millis() == self.settings.record_life().as_millis();
        if reach.is_zero() || is_same || self.told_of_times.swap(true, Ordering::Relaxed) {
            return;
        }
        // It reaches back for twice both times, and twice a second.
        let both = |life: Duration| (life / 2).saturating_sub(INSERT);
        let (own, other) = (both(self.settings.record_life()), both(reach));
        tracing::warn!(
            parent: None,
            filter = &*self.settings.name,
            ?own,
            ?other,
            "longest_transaction and handler_time together differ from what another process states, or one before: \
             the longest counts for all, until enforce_everywhere is called. Give all processes the same"
        );
    }
}
