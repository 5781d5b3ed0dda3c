//! Tells that processes of one filter have other settings, with the values and once a process, and each time that Redis
//! begins or ceases to evict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::filter::Header;
use crate::settings::Settings;

/// Compares this process's settings with what Redis shows of others'.
pub(crate) struct SettingsMismatchLog {
    settings: Arc<Settings>,
    sizing_told: AtomicBool,
    times_told: AtomicBool,
    /// Of which shard's Redis it was told that it may evict, while it may: its number and one more. Others are of other nodes.
    eviction_told: AtomicUsize,
}

impl SettingsMismatchLog {
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        Self {
            settings: Arc::clone(settings),
            sizing_told: AtomicBool::new(false),
            times_told: AtomicBool::new(false),
            eviction_told: AtomicUsize::new(0),
        }
    }

    /// Whether it is news that the Redis of a shard may evict, or no more.
    fn is_news(&self, shard: usize, may_evict: bool) -> bool {
        let (from, to) = if may_evict { (0, shard + 1) } else { (shard + 1, 0) };
        let told = &self.eviction_told;
        told.load(Ordering::Relaxed) == from
            && told.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Tells whether Redis may evict what the guard keeps there of a shard, where that ends absences.
    pub(crate) fn tell_eviction(&self, shard: usize, ends_absences: bool) {
        if !self.is_news(shard, ends_absences) {
            return;
        }
        let filter = &*self.settings.name;
        if ends_absences {
            tracing::warn!(
                parent: None,
                filter,
                "redis may evict any key (allkeys-*), so no id there is refused: set maxmemory-policy to noeviction, or \
                 see accept_eviction"
            );
        } else {
            tracing::info!(parent: None, filter, "redis evicts no key of the filter any more");
        }
    }

    /// Compares them with what a live filter was built for.
    pub(crate) fn compare_sizing(&self, live: &Header) {
        let rate = self.settings.sizing.rate() as f32;
        let capacity = self.settings.sizing.share();
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

    /// Compares them with how long marks last that any process has asked for; zero if none has.
    pub(crate) fn compare_times(&self, longest: Duration) {
        if longest.is_zero() || longest.as_millis() == self.settings.mark_ttl().as_millis() {
            return;
        }
        if self.times_told.swap(true, Ordering::Relaxed) {
            return;
        }
        // A mark lasts for twice both times.
        let (own, longest) = (self.settings.mark_ttl() / 2, longest / 2);
        tracing::warn!(
            parent: None,
            filter = &*self.settings.name,
            ?own,
            other = ?longest,
            "longest_transaction and handler_time together differ from what another process states, or one before: \
             the longest counts for all. Give all processes the same"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_which_some_may_be_evicted_do_not_tell_it_again_and_again() {
        let own = SettingsMismatchLog::new(&Arc::new(Settings::new("users".into())));
        let looks =
            [(0, false), (1, true), (0, false), (2, true), (1, true), (1, false), (2, true)];
        let news = looks.map(|(shard, may_evict)| own.is_news(shard, may_evict));
        assert_eq!(news, [false, true, false, false, false, true, true]);
    }
}
