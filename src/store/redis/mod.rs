//! The store in Redis, shared by all instances of a service.
//!
//! | file or room | what |
//! |---|---|
//! | `check/` | what is known of ids, in one round trip |
//! | `add` | inserts: acknowledged when every filter that needs them has them |
//! | `null` | ids that were found missing |
//! | `fleet` | what the metadata say to all processes: the mode, until when the filter settles, how far back the journal reaches |
//! | `change_fleet` | changes that |
//! | `distrust` | puts a filter out of use that was found incomplete |
//! | `sample` | looks whether the filter holds what the journal does |
//! | `view`, `keys` | what a filter's keys are called, and what they hold |
//! | `shard` | the guard's own filter on one Redis: its keys, its node, and what this process knows of them |
//! | `settings_differ` | tells that other processes have other settings |
//! | `copy/` | a copy of the filter in this process: what it holds passes, and nobody is asked |
//! | `incarnation/` | another Redis than before, and inserts that it may lack |
//! | `rebuild/` | one rebuild, step by step |
//!
//! Files import each other without circles. `incarnation/` does not know `rebuild/`.

mod add;
mod change_fleet;
mod check;
mod copy;
mod distrust;
pub(crate) mod fleet;
mod incarnation;
mod keys;
mod null;
mod rebuild;
mod sample;
mod settings_differ;
mod shard;
mod view;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use self::copy::copies::Copies;
use self::incarnation::identity::Identity;
use self::incarnation::join::JoinIncarnation;
use self::incarnation::known_fleet::KnownFleet;
use self::incarnation::recent::RecentInserts;
use self::incarnation::seen::LastIncarnation;
use self::keys::Keys;
use self::rebuild::build::RedisBuild;
use self::settings_differ::OwnSettings;
use self::shard::Shard;
use super::journal_room::JournalRoom;
use super::link::handshake::Handshake;
use super::link::node::{self, Node};
use super::map::endpoint::Endpoint;
use super::{
    Answer, Begun, BoxFuture, Condition, Copied, FleetChange, Lookup, NullClaim, Remembered, Store,
    Survey,
};
use crate::background::{Background, persist};
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::Id;
use crate::mode::SharedMode;
use crate::nulls::scope::Scope;
use crate::settings::Settings;
use crate::verdict::Doubt;

/// The store in Redis. Its background tasks end with it.
pub(crate) struct RedisStore {
    shard: Arc<Shard>,
    endpoint: Endpoint,
    background: Background,
}

impl RedisStore {
    pub(crate) fn new(settings: &Settings, endpoint: Endpoint) -> Self {
        let retention = settings.retention();
        // No more than the journal holds: there is nothing to replay into beyond that.
        let capacity = usize::try_from(settings.journal_entries).unwrap_or(usize::MAX);
        let recent = RecentInserts::new(retention.overlap, retention.handler, capacity);
        let recent = Arc::new(recent);
        let seen = Arc::new(LastIncarnation::default());
        let own_settings = Arc::new(OwnSettings::new(settings));
        let fleet = Arc::new(KnownFleet::new(&settings.name));
        let handshake: Arc<dyn Handshake<Identity>> = Arc::new(JoinIncarnation::new(
            settings,
            Arc::clone(&own_settings),
            Arc::clone(&recent),
            Arc::clone(&seen),
            Arc::clone(&fleet),
        ));
        let keys = Keys::new(&settings.name);
        let connector = endpoint.connector(&keys.bits);
        let shard = Shard {
            name: settings.name.as_str().into(),
            check_deadline: settings.check_deadline,
            retention,
            own_settings,
            journal_room: JournalRoom::new(&settings.name, settings.journal_entries),
            keys,
            node: Node::new(&connector, settings, |_| Arc::clone(&handshake)),
            recent,
            seen,
            fleet,
            accept_eviction: settings.accept_eviction,
            eviction_logged: AtomicBool::new(false),
            filter: ArcSwapOption::empty(),
            view: ArcSwapOption::empty(),
            copies: Copies::new(settings.copy_limit),
            doubt: Mutex::new(Doubt::Disconnected),
            newest: Mutex::default(),
        };
        Self { shard: Arc::new(shard), endpoint, background: Background::default() }
    }
}

impl Store for RedisStore {
    fn start(&self) {
        self.background.start(|tasks| {
            let name = &self.shard.name;
            node::start(&self.shard, 3, name, tasks);
            persist(tasks, name, "own inserts", &self.shard, Shard::replay_own_inserts);
            persist(tasks, name, "samples", &self.shard, Shard::look_into_samples);
            if self.shard.copies.are_wanted() {
                persist(tasks, name, "copy", &self.shard, Shard::keep_copy);
            }
        });
    }

    fn copied(&self, id: &Id) -> Option<Copied> {
        self.shard.copies.copied(id, self.shard.filter.load().as_deref())
    }

    fn check(&self, id: &Id, now: Instant) -> Answer<Lookup> {
        self.shard.check(id, now)
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.shard.add(ids))
    }

    fn remember(
        &self,
        id: &Id,
        claim: NullClaim,
        scope: Scope,
        ttl: Duration,
    ) -> Answer<Remembered> {
        Answer::Pending(Box::pin(Arc::clone(&self.shard).remember(id.clone(), claim, scope, ttl)))
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        let id = id.clone();
        Box::pin(async move { self.shard.remove(&id, ttl).await })
    }

    fn distrust(&self, generation: Generation) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.shard.distrust(generation))
    }

    fn condition(&self) -> Condition {
        self.shard.condition()
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        Box::pin(self.shard.survey())
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        self.shard.fleet.mode()
    }

    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        Box::pin(self.shard.change_fleet(change))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Begun, StoreError>> {
        Box::pin(RedisBuild::begin(Arc::clone(&self.shard)))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("endpoint", &self.endpoint)
            .field("keys", &self.shard.keys)
            .finish_non_exhaustive()
    }
}
