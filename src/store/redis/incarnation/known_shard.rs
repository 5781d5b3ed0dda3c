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

/// A shard as its handshake knows it, and all that asks it.
pub(crate) struct KnownShard {
    pub(crate) keys: Keys,
    /// What the application has set, for one shard.
    pub(crate) settings: Arc<Settings>,
    pub(crate) mismatches: Arc<SettingsMismatchLog>,
    pub(crate) recent: RecentInserts,
    pub(crate) seen: LastIncarnation,
    pub(crate) fleet: KnownFleet,
    /// Notified where a connection has joined the metadata, and where the shard is on another node.
    pub(crate) joins: Notify,
    /// The key last used. It is offered again to a Redis that lost its metadata, so that digests already
    /// computed stay good.
    pub(super) last_key: Mutex<Option<SecretKey>>,
}

impl KnownShard {
    pub(crate) fn new(
        keys: Keys,
        settings: &Arc<Settings>,
        mismatches: &Arc<SettingsMismatchLog>,
        fleet: KnownFleet,
    ) -> Self {
        // No more than the record in Redis holds.
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

    /// Returns one of its keys. All are in one hash slot.
    pub(crate) fn key(&self) -> Arc<str> {
        self.keys.bits.as_str().into()
    }
}
