//! What this process knows of the fleet, and tells metadata that have lost it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::StoreError;
use crate::mode::{Mode, SharedMode};
use crate::store::FleetChange;
use crate::store::link::reply::{Reply, odd};
use crate::store::redis::fleet::Fleet;

/// What this process knows of the fleet by one shard's metadata.
pub(crate) struct KnownFleet {
    of_all: Arc<FleetOfAll>,
    newest: Mutex<Option<Fleet>>,
}

/// What the shards of a filter have in common: any of them may tell of a newer mode.
pub(crate) struct FleetOfAll {
    filter: Arc<str>,
    /// The newest mode that this process knows, as it changes.
    pub(crate) mode: Arc<SharedMode>,
    settling: AtomicUsize,
}

impl FleetOfAll {
    pub(crate) fn new(filter: &str) -> Self {
        let (filter, mode) = (filter.into(), Arc::default());
        Self { filter, mode, settling: AtomicUsize::new(0) }
    }

    /// Notes a mode, and tells if that is news.
    fn note(&self, mode: Mode, number: i64) {
        if let Some(mode) = self.mode.note(mode, number) {
            let filter = &*self.filter;
            tracing::info!(parent: None, filter, ?mode, "the mode of all processes has changed");
        }
    }

    /// Notes that a shard has begun to settle, or has settled.
    fn settles(&self, settles: bool) {
        let filter = &*self.filter;
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
}

impl KnownFleet {
    pub(crate) fn new(of_all: Arc<FleetOfAll>) -> Self {
        Self { of_all, newest: Mutex::default() }
    }

    /// Returns until when the filter settles, by Redis's clock, ms.
    pub(crate) fn settles_ms(&self) -> Option<i64> {
        self.newest.lock().and_then(|fleet| fleet.settles_ms)
    }

    /// Notes what this process has changed: before a poll shows it, Redis may have lost it.
    pub(crate) fn changed(&self, change: &FleetChange, number: i64) {
        let mode = match change {
            FleetChange::Mode(mode) => *mode,
            FleetChange::Enforce { .. } => Mode::Enforce,
            FleetChange::Rebuild => return,
        };
        self.of_all.note(mode, number);
    }

    pub(super) fn mode_number(&self) -> i64 {
        self.of_all.mode.numbered().1
    }

    /// Returns what a join tells, as the last arguments of its script.
    pub(super) fn offer(&self) -> [String; 4] {
        let newest = *self.newest.lock();
        let (mode, number) = self.of_all.mode.numbered();
        let mode = if number > 0 { mode.letter().to_string() } else { String::new() };
        // No less than 1: settling ends with a rebuild.
        let rest = |rest: Duration| rest.as_millis().max(1);
        let settling = newest.map(|fleet| fleet.settles_for().map_or(0, rest).to_string());
        let told_ms = newest.map_or(0, |fleet| fleet.told_ms);
        [settling.unwrap_or_default(), mode, number.to_string(), told_ms.to_string()]
    }

    /// Reads what a join was told; `sent` is when it was asked, `now_ms` what Redis's clock showed.
    pub(super) fn read(
        &self,
        fields: [Reply; 3],
        now_ms: i64,
        sent: Instant,
    ) -> Result<Fleet, StoreError> {
        let [settles, mode, number] = fields;
        let mode = mode.text()?;
        let mode =
            Mode::from_letter(&mode).ok_or_else(|| odd("join.lua", format!("mode {mode:?}")))?;
        let read = Fleet::read(settles.int()?, now_ms, sent);
        self.of_all.note(mode, number.int()?);
        let before = self.newest.lock().replace(read);
        let settled_before = before.is_none_or(|before| before.settles_ms.is_none());
        if settled_before != read.settles_ms.is_none() {
            self.of_all.settles(settled_before);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_one_shard_tells_of_is_told_to_all() {
        let of_all = Arc::new(FleetOfAll::new("users"));
        let shards = [0, 1].map(|_| KnownFleet::new(Arc::clone(&of_all)));
        shards[0].changed(&FleetChange::Mode(Mode::Off), 7);
        let [_, mode, number, _] = shards[1].offer();
        assert_eq!((mode.as_str(), number.as_str(), of_all.mode.get()), ("o", "7", Mode::Off));
    }
}
