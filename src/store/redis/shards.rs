//! All shards of a filter: which one an id is in, and how they stand together.
//!
//! The first bits of an id's digest choose its shard. So the secret key has to be known before any metadata is, and the
//! application gives it. How many shards there are is part of the keys' names: processes that differ have different filters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{join_all, try_join_all};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::change_fleet::Change;
use super::common::Common;
use super::groups::Groups;
use super::incarnation::join_all::is_turn_of;
use super::incarnation::known_shard::KnownShard;
use super::keys::Keys;
use super::shard::{SURVEY, Shard};
use crate::background::persist;
use crate::error::StoreError;
use crate::id::{Digester, Id, KeyedDigest};
use crate::mode::SharedMode;
use crate::settings::Settings;
use crate::store::link::node;
use crate::store::map::endpoint::Endpoint;
use crate::store::{
    Answer, Condition, Copied, FleetChange, FleetView, Inserted, NewNull, Removed, Survey,
};

pub(crate) struct Shards {
    pub(crate) name: Arc<str>,
    pub(crate) groups: Groups,
    pub(crate) all: Box<[Arc<Shard>]>,
    /// Says in which of several shards an id is.
    digester: Option<Digester>,
    turn: AtomicUsize,
}

impl Shards {
    pub(crate) fn new(settings: &Settings, endpoints: &[Endpoint]) -> Self {
        let count = settings.sizing.shards;
        let common = Arc::new(Common::new(settings));
        let known = |number| {
            let keys = Keys::of_shard(&settings.name, number, count);
            Arc::new(KnownShard::new(keys, &common))
        };
        let known: Arc<[_]> = (0..count).map(known).collect();
        let groups = Groups::new(settings, endpoints, Arc::clone(&known));
        let shard = |(number, known): (usize, &Arc<KnownShard>)| {
            let node = Arc::clone(&groups.servers[number % groups.servers.len()].node);
            Arc::new(Shard::new(number, count as usize, Arc::clone(known), node))
        };
        let all: Box<[_]> = known.iter().enumerate().map(shard).collect();
        let key = settings.secret_key.as_ref().filter(|_| count > 1);
        Self {
            name: settings.name.as_str().into(),
            groups,
            digester: key.map(|key| Digester::new(key, &settings.name)),
            turn: AtomicUsize::new(0),
            all,
        }
    }

    pub(crate) fn spawn(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let name = &self.name;
        if self.groups.slots.is_some() {
            persist(tasks, name, "groups", self, Self::keep_grouped);
        } else {
            for group in &self.groups.servers {
                node::start(self, &group.node, name, tasks);
            }
        }
        if self.all.len() > 1 {
            persist(tasks, name, "shards", self, Self::keep_surveyed);
        }
        if self.all[0].known.settings().observes {
            return;
        }
        persist(tasks, name, "audits", self, Self::audit_copies);
        for shard in &self.all {
            persist(tasks, name, "own inserts", shard, Shard::replay_own_inserts);
            if shard.known.settings().copy_limit > 0 {
                persist(tasks, name, "copy", shard, Shard::keep_copy);
            }
        }
    }

    /// Returns the shard of an id, and the id's digest, if it was made before or is needed for that.
    pub(crate) fn place(
        &self,
        id: &Id,
        made: Option<KeyedDigest>,
    ) -> (&Arc<Shard>, Option<KeyedDigest>) {
        let placed = self.digester.as_ref().map(|digester| digester.digest_once(id, made));
        let number = placed.map_or(0, |of| of.digest.shard(self.all.len()));
        (&self.all[number], placed.or(made))
    }

    /// Says whether this process's copy holds an id; returns also the digest that it took.
    pub(crate) fn copied(&self, id: &Id) -> (Option<KeyedDigest>, Option<Copied>) {
        let (shard, digest) = self.place(id, None);
        shard.copies.copied(id, digest, shard.filter.load().as_deref())
    }

    pub(crate) fn shard_of(&self, id: &Id) -> &Arc<Shard> {
        self.place(id, None).0
    }

    /// Acknowledges ids. Where one shard fails, the ids of others may be inserted.
    pub(crate) async fn add(&self, ids: Vec<Id>) -> Result<Inserted, StoreError> {
        if self.all.len() == 1 || ids.len() <= 1 {
            let first = ids.first().map_or(&self.all[0], |id| self.shard_of(id));
            return first.add(ids).await;
        }
        let mut parts: Vec<Vec<Id>> = vec![Vec::new(); self.all.len()];
        for id in ids {
            parts[self.shard_of(&id).number].push(id);
        }
        let filled = self.all.iter().zip(parts).filter(|(_, ids)| !ids.is_empty());
        let added = join_all(filled.map(|(shard, ids)| shard.add(ids))).await;
        added.into_iter().try_fold(Inserted::Perhaps, |perhaps, added| added.map(|_| perhaps))
    }

    pub(crate) fn remember(&self, id: &Id, null: NewNull) -> Answer<Option<Removed>> {
        let shard = Arc::clone(self.shard_of(id));
        Answer::Pending(Box::pin(shard.remember(id.clone(), null)))
    }

    pub(crate) fn fleet_mode(&self) -> Arc<SharedMode> {
        Arc::clone(&self.all[0].known.common.mode)
    }

    /// Changes how all processes act, in the metadata of every shard. What one shard has taken is told to all, also where another
    /// fails. So a change that may be overtaken is first judged in each.
    pub(crate) async fn change_fleet(&self, change: FleetChange) -> Result<(), StoreError> {
        if let FleetChange::Enforce { .. } = change
            && self.all.len() > 1
        {
            self.change_each(&change, Change::Judge).await?;
        }
        self.change_each(&change, Change::Make).await
    }

    async fn change_each(&self, change: &FleetChange, how: Change) -> Result<(), StoreError> {
        let changed = self.all.iter().map(|shard| shard.change_fleet(change, how));
        join_all(changed).await.into_iter().collect()
    }

    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        let views = try_join_all(self.all.iter().map(|shard| shard.view_fleet())).await?;
        Ok(views.into_iter().reduce(FleetView::with).expect("there is a shard"))
    }

    /// Surveys the shards that are not known to be live, and the others by turns: requests may not ask for ids of each. The filter is
    /// live if all shards that answer are, and as old as the oldest. Fails where no shard answers.
    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let is_turn = |shard: &Shard| is_turn_of(shard.number, self.all.len(), turn);
        let surveys = self.all.iter().map(async |shard| match shard.last_survey() {
            Some(last) if shard.is_as(&last) && !is_turn(shard) => Ok(last),
            _ => shard.look(SURVEY).await.map(|(survey, _)| survey),
        });
        let with = |one, other| match (one, other) {
            (Ok(one), Ok(other)) => Ok(Survey::with(one, other)),
            (one, other) => one.or(other),
        };
        join_all(surveys).await.into_iter().reduce(with).expect("there is a shard")
    }

    async fn keep_surveyed(self: Arc<Self>) {
        loop {
            sleep(SURVEY).await;
            self.survey().await.ok();
        }
    }

    /// The filter is live if any shard is.
    pub(crate) fn condition(&self) -> Condition {
        Condition::of_shards(self.all.iter().map(|shard| shard.condition()).collect())
    }
}
