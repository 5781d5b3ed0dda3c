//! Tells that processes of one filter have other settings: once a process, with both values.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::filter::{Header, Sizing};
use crate::settings::Settings;

/// This process's settings, as far as Redis shows those of others.
pub(crate) struct OwnSettings {
    filter: Arc<str>,
    sizing: Sizing,
    mark_ttl: Duration,
    sizing_told: AtomicBool,
    times_told: AtomicBool,
}

impl OwnSettings {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            filter: settings.name.as_str().into(),
            sizing: settings.sizing,
            mark_ttl: settings.mark_ttl(),
            sizing_told: AtomicBool::new(false),
            times_told: AtomicBool::new(false),
        }
    }

    pub(crate) fn mark_ttl(&self) -> Duration {
        self.mark_ttl
    }

    /// Compares them with what a live filter was built for.
    pub(crate) fn compare_sizing(&self, live: &Header) {
        let rate = self.sizing.rate() as f32;
        let capacity = self.sizing.share();
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
            filter = &*self.filter,
            capacity,
            %rate,
            live_capacity = live.capacity,
            live_rate = %live.rate,
            "the live filter was sized by other settings than this process's: another process's, or those of before. \
             Each rebuild takes those of its process: give all processes the same"
        );
    }

    /// Compares them with how long marks last that any process has asked for; zero if none has.
    pub(crate) fn compare_times(&self, longest: Duration) {
        if longest.is_zero() || longest.as_millis() == self.mark_ttl.as_millis() {
            return;
        }
        if self.times_told.swap(true, Ordering::Relaxed) {
            return;
        }
        // A mark lasts for twice both times.
        let (own, longest) = (self.mark_ttl / 2, longest / 2);
        tracing::warn!(
            parent: None,
            filter = &*self.filter,
            ?own,
            other = ?longest,
            "longest_transaction and handler_time together differ from what another process states, or one before: \
             the longest counts for all. Give all processes the same"
        );
    }
}
