//! What this process knows of the fleet. It tells metadata that do not know it: of a Redis that came back empty, say.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::error::StoreError;
use crate::mode::{Mode, SharedMode};
use crate::store::FleetChange;
use crate::store::link::reply::Reply;
use crate::store::redis::fleet::Fleet;

/// How much later than another reply one can have been written that comes before it, ms.
const LATE_MS: i64 = 3_000;

/// The newest that this process has read.
pub(crate) struct KnownFleet {
    filter: Arc<str>,
    newest: Mutex<Option<Fleet>>,
    /// The mode of it, as requests read it.
    mode: Arc<SharedMode>,
}

/// What a join tells.
pub(super) struct Offer {
    /// Nothing, `0` once the filter has settled, else for how long it still settles, ms.
    pub(super) settling: String,
    pub(super) mode: String,
    pub(super) number: i64,
    /// When it was last told, by Redis's clock, ms.
    pub(super) told_ms: i64,
}

impl KnownFleet {
    pub(crate) fn new(filter: &str) -> Self {
        Self { filter: filter.into(), newest: Mutex::default(), mode: Arc::default() }
    }

    /// Returns the newest mode that this process knows, as it changes.
    pub(crate) fn mode(&self) -> Arc<SharedMode> {
        Arc::clone(&self.mode)
    }

    /// Returns until when the filter settles, by Redis's clock, ms.
    pub(crate) fn settles_ms(&self) -> Option<i64> {
        let newest = *self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.and_then(|fleet| fleet.settling).map(|settling| settling.until_ms)
    }

    /// Notes what this process has changed, before any poll can show it. Redis may have lost it by then.
    pub(crate) fn changed(&self, change: &FleetChange, number: i64) {
        let mode = match change {
            FleetChange::Mode(mode) => *mode,
            FleetChange::Enforce { .. } => Mode::Enforce,
            FleetChange::Settled { .. } => return,
        };
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = *newest
            && known.number < number
        {
            *newest = Some(known.with(mode, number, known.settling));
            self.mode.set(mode);
        }
    }

    pub(super) fn offer(&self) -> Offer {
        let newest = *self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fleet) = newest else {
            return Offer { settling: String::new(), mode: String::new(), number: 0, told_ms: 0 };
        };
        // A rest of nothing is not the end, which comes with a rebuild.
        let rest = fleet.settling.map_or(0, |settling| settling.rest().as_millis().max(1));
        let (settling, mode) = (rest.to_string(), fleet.mode.letter().to_string());
        Offer { settling, mode, number: fleet.number, told_ms: fleet.told_ms }
    }

    /// Reads what a join was told, and keeps what is new of it.
    /// `sent` is when it was asked, `now_ms` what Redis's clock showed.
    pub(super) fn read(
        &self,
        fields: [Reply; 3],
        now_ms: i64,
        sent: Instant,
    ) -> Result<Fleet, StoreError> {
        let [settles, mode, number] = fields;
        let mode = mode.text()?;
        let mode = Mode::from_letter(&mode).ok_or_else(|| StoreError::Odd {
            step: "join.lua",
            answer: format!("mode {mode:?}"),
        })?;
        let read = Fleet::read(mode, number.int()?, settles.int()?, now_ms, sent);
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = newest.unwrap_or(read);
        let (mode, number) = known.newer_mode(read);
        // What has settled stays so: another connection may have read it a moment before, by both clocks. This machine's stands
        // still while it is suspended.
        let is_late = known.holds() && read.told_ms - known.told_ms <= LATE_MS;
        let settling = read.settling.filter(|_| known.settling.is_some() || !is_late);
        self.tell(*newest, mode, settling.is_some());
        *newest = Some(read.with(mode, number, settling));
        self.mode.set(mode);
        Ok(read)
    }

    /// Writes a line about what is new.
    fn tell(&self, before: Option<Fleet>, mode: Mode, settles: bool) {
        let filter = &*self.filter;
        let settled_before = before.map(|before| before.settling.is_some());
        if settles && settled_before != Some(true) {
            tracing::info!(
                parent: None,
                filter,
                "the filter settles: it is new, or no process has polled it for a minute. Nothing is refused until it has; state() \
                 says for how long"
            );
        } else if !settles && settled_before == Some(true) {
            tracing::info!(parent: None, filter, "the filter has settled: ids that it lacks are refused");
        }
        if before.map_or(Mode::Enforce, |before| before.mode) != mode {
            tracing::info!(parent: None, filter, ?mode, "the mode of all processes is another");
        }
    }
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::*;

    fn read(known: &KnownFleet, settles: i64, now_ms: i64) -> String {
        let text = |text: &str| Reply::new("join.lua", Value::BulkString(text.into()));
        let fields = [text(&settles.to_string()), text("e"), text("0")];
        known.read(fields, now_ms, Instant::now()).unwrap();
        known.offer().settling
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_settled_stays_so_for_a_reply_that_is_late_and_not_for_a_process_that_was_away()
     {
        let known = KnownFleet::new("users");
        assert_eq!(read(&known, 0, 5_000), "0");
        assert_eq!(read(&known, 7_000, 5_000), "0", "the reply is late");
        assert_eq!(read(&known, 67_000, 65_000), "2000", "this machine was suspended");
        assert_eq!(read(&known, 0, 65_000), "0");
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert_eq!(read(&known, 67_000, 65_000), "2000", "it settles anew");
    }
}
