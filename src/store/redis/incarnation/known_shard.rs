//! What this process knows of a shard, from all its connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::recent::RecentInserts;
use super::seen::LastIncarnation;
use crate::error::StoreError;
use crate::id::SecretKey;
use crate::mode::Mode;
use crate::settings::Settings;
use crate::store::link::reply::{Reply, odd};
use crate::store::redis::common::Common;
use crate::store::redis::fleet::Fleet;
use crate::store::redis::keys::Keys;

pub(crate) struct KnownShard {
    pub(crate) keys: Keys,
    pub(crate) common: Arc<Common>,
    pub(crate) recent: RecentInserts,
    pub(crate) seen: LastIncarnation,
    /// What the metadata said when any connection last read them.
    fleet: Mutex<Option<Fleet>>,
    /// Notified where a session has joined the metadata, and where the shard has moved to another node.
    pub(crate) joins: Notify,
    /// Offered again to a Redis that lost its metadata, so that digests stay good.
    pub(super) last_key: Mutex<Option<SecretKey>>,
}

impl KnownShard {
    pub(crate) fn new(keys: Keys, common: &Arc<Common>) -> Self {
        Self {
            keys,
            common: Arc::clone(common),
            recent: RecentInserts::new(&common.settings),
            seen: LastIncarnation::default(),
            fleet: Mutex::default(),
            joins: Notify::new(),
            last_key: Mutex::new(None),
        }
    }

    pub(crate) fn key(&self) -> Arc<str> {
        self.keys.bits.as_str().into()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.common.settings
    }

    pub(crate) fn settles_ms(&self) -> Option<i64> {
        self.fleet.lock().and_then(|fleet| fleet.settles_ms)
    }

    /// Returns what a join tells of the fleet, as the last arguments of its script.
    pub(super) fn offer_fleet(&self) -> [String; 4] {
        let fleet = *self.fleet.lock();
        let (mode, number) = self.common.mode.numbered();
        let mode = if number > 0 { mode.letter().to_string() } else { String::new() };
        // No less than 1: settling ends with a rebuild.
        let rest = |rest: Duration| rest.as_millis().max(1);
        let settling = fleet.map(|fleet| fleet.settles_for().map_or(0, rest).to_string());
        let told_ms = fleet.map_or(0, |fleet| fleet.told_ms);
        [settling.unwrap_or_default(), mode, number.to_string(), told_ms.to_string()]
    }

    /// Reads what a join was told of the fleet; `sent` is when it was asked, `now_ms` what Redis's clock showed.
    pub(super) fn read_fleet(
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
        self.common.note_mode(mode, number.int()?);
        *self.fleet.lock() = Some(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl KnownShard {
        pub(crate) fn note_settling(&self, until_ms: i64) {
            *self.fleet.lock() = Some(Fleet::read(until_ms, 0, Instant::now()));
        }
    }

    #[test]
    fn a_mode_that_one_shard_tells_of_is_told_to_all() {
        let common = Arc::new(Common::new(&Settings::new("users".into())));
        let shards = [0, 1].map(|_| KnownShard::new(Keys::new("users"), &common));
        shards[0].common.note_mode(Mode::Off, 7);
        let [_, mode, number, _] = shards[1].offer_fleet();
        assert_eq!((mode.as_str(), number.as_str(), common.mode.get()), ("o", "7", Mode::Off));
    }
}
