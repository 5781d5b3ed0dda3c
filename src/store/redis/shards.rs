//! All shards of a filter: which one an id is in, and how they stand together.
//!
//! The first bits of an id's digest choose its shard. So the secret key has to be known before any metadata is, and the
//! application gives it. How many shards there are is part of the keys' names: processes that differ have different filters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::change_fleet::Change;
use super::groups::Groups;
use super::incarnation::join_all::is_turn_of;
use super::incarnation::known_fleet::{FleetOfAll, KnownFleet};
use super::incarnation::known_shard::KnownShard;
use super::keys::Keys;
use super::settings_mismatch::SettingsMismatchLog;
use super::shard::Shard;
use crate::background::persist;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::id::{Digest, Digester, Id, KeyedDigest};
use crate::mode::SharedMode;
use crate::settings::Settings;
use crate::store::link::node;
use crate::store::link::session::Purpose;
use crate::store::map::endpoint::Endpoint;
use crate::store::{
    Answer, Condition, Copied, Distrusted, FleetChange, FleetView, Inserted, NewNull, Remembered,
    Survey,
};

/// The least number of ids that a shard's record of recent inserts holds, where the filter's may hold as many.
const RECENT_IDS: u64 = 10_000;

/// How often it is looked which shards are live.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Shards {
    pub(crate) name: Arc<str>,
    pub(crate) groups: Groups,
    /// By number.
    pub(crate) all: Box<[Arc<Shard>]>,
    /// What tells in which shard an id is; nothing where there is only one.
    digester: Option<Digester>,
    pub(crate) fleet: Arc<FleetOfAll>,
    /// What each shard said last, when it was asked how it stands, and how often all were asked.
    surveys: Mutex<Vec<Option<Survey>>>,
    turn: AtomicUsize,
}

impl Shards {
    pub(crate) fn new(settings: &Settings, endpoints: &[Endpoint]) -> Self {
        let count = settings.sizing.shards;
        let of_one = Arc::new(of_one(settings));
        let mismatches = Arc::new(SettingsMismatchLog::new(&of_one));
        let fleet = Arc::new(FleetOfAll::new(&settings.name));
        let known = |number| {
            let fleet = KnownFleet::new(Arc::clone(&fleet));
            let keys = Keys::of_shard(&settings.name, number, count);
            Arc::new(KnownShard::new(keys, &of_one, &mismatches, fleet))
        };
        let known: Arc<[_]> = (0..count).map(known).collect();
        let groups = Groups::new(settings, endpoints, Arc::clone(&known));
        let shard = |(number, known): (usize, &Arc<KnownShard>)| {
            let node = groups.at_first(number);
            Arc::new(Shard::new(number, count as usize, Arc::clone(known), node))
        };
        let all: Box<[_]> = known.iter().enumerate().map(shard).collect();
        let key = settings.secret_key.as_ref().filter(|_| count > 1);
        Self {
            name: settings.name.as_str().into(),
            groups,
            digester: key.map(|key| Digester::new(key, &settings.name)),
            fleet,
            surveys: Mutex::new(vec![None; count as usize]),
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
            persist(tasks, name, "shards", self, Self::look_at_each);
        }
        if self.all[0].known.settings.observes {
            return;
        }
        persist(tasks, name, "samples", self, Self::look_into_samples);
        for shard in &self.all {
            persist(tasks, name, "own inserts", shard, Shard::replay_own_inserts);
            if shard.copies.are_wanted() {
                persist(tasks, name, "copy", shard, Shard::keep_copy);
            }
        }
    }

    /// Returns the shard that an id is in, and the id's digest, if it was made before or had to be made for that.
    pub(crate) fn place(
        &self,
        id: &Id,
        made: Option<KeyedDigest>,
    ) -> (&Arc<Shard>, Option<KeyedDigest>) {
        let placed = self.digester.as_ref().map(|digester| digester.digest_once(id, made));
        let number = placed.map_or(0, |of| of.digest.shard(self.all.len()));
        (&self.all[number], placed.or(made))
    }

    /// Returns an id's digest, if the key is known.
    pub(crate) fn digest(&self, id: &Id) -> Option<Digest> {
        let (shard, placed) = self.place(id, None);
        let live = || shard.current(Purpose::Checks);
        placed.map(|of| of.digest).or_else(|| Some(live()?.identity.digester.digest(id)))
    }

    /// Says whether this process's copy holds an id; returns also the digest that it took.
    pub(crate) fn copied(&self, id: &Id) -> (Option<KeyedDigest>, Option<Copied>) {
        let (shard, digest) = self.place(id, None);
        shard.copies.copied(id, digest, shard.filter.load().as_deref())
    }

    /// Returns the shard that an id is in.
    pub(crate) fn of(&self, id: &Id) -> &Arc<Shard> {
        self.place(id, None).0
    }

    /// Acknowledges ids. Where a shard fails, those of the others may be inserted.
    pub(crate) async fn add(&self, ids: Vec<Id>) -> Result<Inserted, StoreError> {
        if let [shard] = &*self.all {
            return shard.add(ids).await;
        }
        if let [id] = &*ids {
            return self.of(id).add(ids).await;
        }
        let mut parts: Vec<Vec<Id>> = vec![Vec::new(); self.all.len()];
        for id in ids {
            parts[self.of(&id).number].push(id);
        }
        let filled = self.all.iter().zip(parts).filter(|(_, ids)| !ids.is_empty());
        let added = join_all(filled.map(|(shard, ids)| shard.add(ids))).await;
        added.into_iter().try_fold(Inserted::Perhaps, |perhaps, added| added.map(|_| perhaps))
    }

    pub(crate) fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered> {
        let shard = Arc::clone(self.of(id));
        Answer::Pending(Box::pin(shard.remember(id.clone(), null)))
    }

    pub(crate) async fn remove(&self, id: &Id, ttl: Duration) -> Result<Remembered, StoreError> {
        self.of(id).remove(id, ttl).await
    }

    pub(crate) async fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> Result<Distrusted, StoreError> {
        self.of(id).distrust(id, generation).await
    }

    pub(crate) fn fleet_mode(&self) -> Arc<SharedMode> {
        self.fleet.mode()
    }

    /// Changes how all processes act, in the metadata of every shard. Where one fails, the others have taken it: a mode that is
    /// newer in one is told to all. So no shard takes what has to be judged before it was judged in each.
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

    /// Asks how the fleet stands, as the metadata of every shard say.
    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        let views = try_join_all(self.all.iter().map(|shard| shard.view_fleet())).await?;
        Ok(views.into_iter().reduce(FleetView::with).expect("there is a shard"))
    }

    /// Returns the shards whose filters are not trusted, or whose build began before this moment of Redis's clock, µs; all of
    /// them, before any moment.
    /// Fails where none of them can say.
    pub(crate) async fn due(&self, before_us: i64) -> Result<Vec<Arc<Shard>>, StoreError> {
        if self.all.len() == 1 || before_us == i64::MAX {
            return Ok(self.all.to_vec());
        }
        let surveys = self.survey_each(|_, _| true).await;
        let mut due = Vec::new();
        let mut failure = None;
        for (shard, survey) in self.all.iter().zip(surveys) {
            match survey {
                Ok(survey) if survey.is_older_than(before_us) => due.push(Arc::clone(shard)),
                Ok(_) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.filter(|_| due.is_empty()).map_or(Ok(due), Err)
    }

    /// Asks how all shards stand: those that are not known to be live, and others by turns. The filter is live if all are that
    /// say so, and as old as the oldest.
    /// Fails where none of them can say.
    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let surveys = self.survey_each(|known, number| {
            known.live.is_err() || is_turn_of(number, self.all.len(), turn)
        });
        let with = |one, other| match (one, other) {
            (Ok(one), Ok(other)) => Ok(Survey::with(one, other)),
            (one, other) => one.or(other),
        };
        surveys.await.into_iter().reduce(with).expect("there is a shard")
    }

    /// Returns how each shard stands. One of which that is known is asked where it is due.
    async fn survey_each(
        &self,
        is_due: impl Fn(&Survey, usize) -> bool,
    ) -> Vec<Result<Survey, StoreError>> {
        let known = self.surveys.lock().clone();
        let asked = self.all.iter().zip(known).map(async |(shard, known)| match known {
            Some(known) if !is_due(&known, shard.number) => Ok(known),
            _ => shard.survey().await,
        });
        let surveys = join_all(asked).await;
        *self.surveys.lock() = surveys.iter().map(|survey| survey.as_ref().ok().copied()).collect();
        surveys
    }

    /// Looks each second at the shards that are not known to be live, and at another one, for as long as it is polled: requests
    /// may not ask for ids of each.
    pub(crate) async fn look_at_each(self: Arc<Self>) {
        for turn in (0..self.all.len()).cycle() {
            sleep(LOOK).await;
            let unknown =
                |shard: &&Arc<Shard>| shard.number == turn || shard.filter.load().is_none();
            join_all(self.all.iter().filter(unknown).map(|shard| shard.survey())).await;
        }
    }

    /// Returns what is known without asking Redis. The filter is live if any shard is.
    pub(crate) fn condition(&self) -> Condition {
        let others = self.all[1..].iter().map(|shard| shard.condition());
        Condition::of_shards(self.all[0].condition(), others)
    }
}

/// Returns what holds for one shard.
fn of_one(settings: &Settings) -> Settings {
    let all = settings.recent_ids;
    let sizing = settings.sizing.one();
    let shards = u64::from(settings.sizing.shards);
    let recent_ids = (all / shards).max(RECENT_IDS).min(all);
    Settings { recent_ids, sizing, ..settings.clone() }
}
