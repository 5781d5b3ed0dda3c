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
//! | `view`, `keys`, `letters` | what a filter's keys are called, and what they hold |
//! | `shard` | a shard of the filter: its keys, its node, and what this process knows of them |
//! | `connection` | a connection by which a shard is asked: its node, its link, and what was learnt as it joined |
//! | `shards` | all of them: which one an id is in, and how they stand together |
//! | `together` | how several shards stand that are one filter |
//! | `groups` | which shards are on which node |
//! | `regroup` | keeps them in the groups of the nodes that serve their slots |
//! | `settings_differ` | tells that other processes, or Redis, have other settings |
//! | `copy/` | a copy of the filter in this process: what it holds passes, and nobody is asked |
//! | `incarnation/` | another Redis than before, and inserts that it may lack |
//! | `rebuild/` | one rebuild, step by step |
//!
//! Files import each other without circles. `incarnation/` does not know `rebuild/`.

mod add;
mod change_fleet;
mod check;
mod connection;
mod copy;
mod distrust;
pub(crate) mod fleet;
mod groups;
mod incarnation;
pub(crate) mod keys;
mod letters;
mod null;
mod rebuild;
mod regroup;
mod sample;
mod settings_differ;
mod shard;
mod shards;
mod together;
mod view;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::rebuild::RedisBuild;
use self::shard::Shard;
use self::shards::Shards;
use super::map::endpoint::Endpoint;
use super::{
    Answer, Begun, BoxFuture, Condition, Copied, Distrusted, FleetChange, FleetView, Lookups,
    NewNull, Remembered, Sought, Store, Survey,
};
use crate::background::{Background, persist};
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::{Digest, Id, KeyedDigest};
use crate::mode::SharedMode;
use crate::settings::Settings;

/// The store in Redis. Its background tasks end with it.
pub(crate) struct RedisStore {
    shards: Arc<Shards>,
    observes: bool,
    background: Background,
}

impl RedisStore {
    pub(crate) fn new(settings: &Settings, endpoint: &Endpoint) -> Self {
        Self {
            shards: Arc::new(Shards::new(settings, endpoint)),
            observes: settings.observes,
            background: Background::default(),
        }
    }
}

impl Store for RedisStore {
    fn start(&self) {
        self.background.start(|tasks| {
            let name = &self.shards.name;
            if self.shards.may_part() {
                persist(tasks, name, "groups", &self.shards, Shards::keep_grouped);
            } else {
                self.shards.start_node(tasks);
            }
            if self.shards.all.len() > 1 {
                persist(tasks, name, "shards", &self.shards, Shards::look_at_each);
            }
            if self.observes {
                return;
            }
            persist(tasks, name, "samples", &self.shards, Shards::look_into_samples);
            for shard in &self.shards.all {
                persist(tasks, name, "own inserts", shard, Shard::replay_own_inserts);
                if shard.copies.are_wanted() {
                    persist(tasks, name, "copy", shard, Shard::keep_copy);
                }
            }
        });
    }

    fn copied(&self, id: &Id) -> (Option<KeyedDigest>, Option<Copied>) {
        let (shard, digest) = self.shards.place(id, None);
        shard.copies.copied(id, digest, shard.filter.load().as_deref())
    }

    fn digest(&self, id: &Id) -> Option<Digest> {
        self.shards.digest(id)
    }

    fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        self.shards.check(ids, now)
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.shards.add(ids))
    }

    fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered> {
        let shard = Arc::clone(self.shards.of(id));
        Answer::Pending(Box::pin(shard.remember(id.clone(), null)))
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        let id = id.clone();
        Box::pin(async move { self.shards.of(&id).remove(&id, ttl).await })
    }

    fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> BoxFuture<'_, Result<Distrusted, StoreError>> {
        let id = id.clone();
        Box::pin(async move { self.shards.of(&id).distrust(&id, generation).await })
    }

    fn condition(&self) -> Condition {
        self.shards.condition()
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        Box::pin(self.shards.survey())
    }

    fn view_fleet(&self) -> BoxFuture<'_, Result<Option<FleetView>, StoreError>> {
        Box::pin(self.shards.view_fleet())
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        self.shards.fleet.mode()
    }

    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        Box::pin(self.shards.change_fleet(change))
    }

    fn begin(&self, before_us: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        Box::pin(RedisBuild::begin(Arc::clone(&self.shards), before_us))
    }
}
