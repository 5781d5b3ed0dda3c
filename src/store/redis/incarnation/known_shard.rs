//! What this process knows of a shard, whichever connection has told it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::known_fleet::KnownFleet;
use super::recent::RecentInserts;
use super::seen::LastIncarnation;
use crate::id::SecretKey;
use crate::settings::Settings;
use crate::store::redis::keys::Keys;
use crate::store::redis::settings_mismatch::SettingsMismatchLog;

pub(crate) struct KnownShard {
    pub(crate) keys: Keys,
    /// The settings of one shard.
    pub(crate) settings: Arc<Settings>,
    pub(crate) mismatches: Arc<SettingsMismatchLog>,
    pub(crate) recent: RecentInserts,
    pub(crate) seen: LastIncarnation,
    pub(crate) fleet: KnownFleet,
    /// Notified where a session has joined the metadata, and where the shard has moved to another node.
    pub(crate) joins: Notify,
    /// Offered again to a Redis that lost its metadata, so that digests stay good.
    pub(super) last_key: Mutex<Option<SecretKey>>,
}

impl KnownShard {
    pub(crate) fn new(
        keys: Keys,
        settings: &Arc<Settings>,
        mismatches: &Arc<SettingsMismatchLog>,
        fleet: KnownFleet,
    ) -> Self {
        let capacity = usize::try_from(settings.recent_ids).unwrap_or(usize::MAX);
        Self {
            keys,
            recent: RecentInserts::new(
                settings.longest_transaction,
                settings.handler_time,
                capacity,
            ),
            settings: Arc::clone(settings),
            mismatches: Arc::clone(mismatches),
            seen: LastIncarnation::default(),
            fleet,
            joins: Notify::new(),
            last_key: Mutex::new(None),
        }
    }

    pub(crate) fn key(&self) -> Arc<str> {
        self.keys.bits.as_str().into()
    }
}
