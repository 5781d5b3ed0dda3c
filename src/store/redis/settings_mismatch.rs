//! Logs once that processes of one filter have other settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::filter::Header;
use crate::settings::{INSERT, Settings};

pub(crate) struct SettingsMismatchLog {
    settings: Arc<Settings>,
    sizing_told: AtomicBool,
    times_told: AtomicBool,
}

impl SettingsMismatchLog {
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        let settings = Arc::clone(settings);
        Self { settings, sizing_told: AtomicBool::default(), times_told: AtomicBool::default() }
    }

    pub(crate) fn compare_sizing(&self, live: &Header) {
        let rate = self.settings.sizing.rate as f32;
        let capacity = self.settings.sizing.share;
        // A rebuild that found more ids than its capacity has made room for them.
        let same_capacity =
            live.capacity == capacity || live.capacity > capacity && live.items > capacity;
        if live.rate.to_bits() == rate.to_bits() && same_capacity
            || self.sizing_told.swap(true, Ordering::Relaxed)
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

    /// Compares this process's times with how far back the record reaches; zero where no process has said.
    pub(crate) fn compare_times(&self, longest: Duration) {
        let is_same = longest.as_millis() == self.settings.record_life().as_millis();
        if longest.is_zero() || is_same || self.times_told.swap(true, Ordering::Relaxed) {
            return;
        }
        // It reaches back for twice both times, and twice a second.
        let both = |life: Duration| (life / 2).saturating_sub(INSERT);
        let (own, longest) = (both(self.settings.record_life()), both(longest));
        tracing::warn!(
            parent: None,
            filter = &*self.settings.name,
            ?own,
            other = ?longest,
            "longest_transaction and handler_time together differ from what another process states, or one before: \
             the longest counts for all, until enforce_everywhere is called. Give all processes the same"
        );
    }
}
