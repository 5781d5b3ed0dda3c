//! The store of a guard on its way from another filter to its own.
//!
//! | hand-over | which filter answers | inserts go to | rebuilds make | nulls |
//! |---|---|---|---|---|
//! | none | the former | both | both, where the former is a guard's, too | the former's, where it is a guard's |
//! | begun | the guard's own | both | the guard's own | the guard's own |
//! | done | the guard's own | the guard's own, and another system's | the guard's own | the guard's own |
//!
//! Why the former filter answers alone until then: it is the only one that has what processes insert which do not know of the
//! other one yet. The guard's own metadata say how far the hand-over is, and no process goes by the former filter that has not
//! read there within three seconds that none was begun. So nothing hangs on the former Redis once it was left: it may lose what
//! it had, or be gone. Between the two steps every process reads of the first.
//!
//! The former filter is told as well, in place of the statement of trust beside another system's, in the header of a guard's: so
//! processes that do not know of the other filter refuse nothing.

mod two_builds;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, try_join};
use tokio::time::Instant;

use self::two_builds::TwoBuilds;
use super::former::Former;
use super::redis::RedisStore;
use super::{
    Answer, Begun, BoxFuture, Condition, Copied, FleetChange, FleetView, HandOver, Lookup, NewNull,
    Remembered, Store, Survey,
};
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::{Digest, Id};
use crate::mode::SharedMode;
use crate::verdict::Doubt;

const NOT_TOLD: &str =
    "the new filter's redis has not said within three seconds whether the old filter was left";

const NEW: &str =
    "that filter is new: no other process has it, or had it a minute ago, or its data were lost";
const NOT_LEFT: &str = "the new filter has taken its place; but it could not be told, so that processes which know no other filter \
                        refuse by it still";

/// Both filters.
pub(crate) struct MigratingStore {
    own: RedisStore,
    old: Arc<dyn Former>,
    old_name: String,
}

impl MigratingStore {
    pub(crate) fn new(own: RedisStore, old: Arc<dyn Former>, old_name: String) -> Self {
        Self { own, old, old_name }
    }

    /// Returns how far the hand-over is; nothing where that is not known.
    fn hand_over_is(&self) -> Option<HandOver> {
        let known = self.own.known_hand_over();
        let step = known.step();
        if step < Some(HandOver::Done) && self.old.is_left() {
            // The former filter is told in the midst of it, or the metadata have forgotten.
            known.note_step(step.unwrap_or_default().max(HandOver::Begun));
            return known.step();
        }
        step
    }

    /// Returns the one that answers; nothing where that is not known.
    fn answering(&self) -> Option<&dyn Store> {
        match self.hand_over_is()? {
            HandOver::None => Some(&*self.old),
            HandOver::Begun | HandOver::Done => Some(&self.own),
        }
    }

    /// Returns the one that nulls are in.
    fn of_nulls(&self) -> &dyn Store {
        self.answering().unwrap_or(&self.own)
    }

    /// Whether the former filter is a guard's, and may answer still.
    fn keeps_both(&self) -> bool {
        self.old.is_own() && self.hand_over_is() <= Some(HandOver::None)
    }

    /// Asks how both stand. The guard's own answers for them.
    async fn survey_both(&self) -> Result<Survey, StoreError> {
        let (own, old) = join(self.own.survey(), self.old.survey()).await;
        let (mut own, old) = (own?, old?);
        own.live = own.live.and_then(|live| old.live.map(|_| live));
        own.due_us = own.due_us.max(old.due_us);
        Ok(own)
    }

    /// Asks how the processes of both stand. The guard's own answers for them, but no transaction is over that anybody states
    /// for either: where one cannot be asked, it is not known which do.
    async fn view_both(&self) -> Result<Option<FleetView>, StoreError> {
        let (own, old) = try_join(self.own.view_fleet(), self.old.view_fleet()).await?;
        let Some((own, old)) = own.zip(old) else { return Ok(None) };
        if own.shares_metadata_with(&old) {
            return Err(self.failed("it is the new filter by another address"));
        }
        let longest_transaction = own.longest_transaction.max(old.longest_transaction);
        Ok(Some(FleetView { longest_transaction, ..own }))
    }

    /// Whether what is inserted has to be in the former filter, too.
    fn needs_old(&self) -> bool {
        let is_left = self.hand_over_is() == Some(HandOver::Done) || self.old.is_left();
        !(self.old.is_own() && is_left)
    }

    /// Begins a rebuild of both, or of one alone where the other is being rebuilt, is not due, or does not answer. By hand both
    /// are to be rebuilt: the former filter may be the one that answers.
    async fn begin_both(&self, before_us: i64) -> Result<Begun, StoreError> {
        let own_is_due = before_us == i64::MAX || self.own.survey().await?.is_older_than(before_us);
        if !own_is_due {
            return self.old.begin(before_us).await;
        }
        let Begun::Leased(own) = self.own.begin(before_us).await? else {
            return Ok(Begun::Busy);
        };
        let is_by_hand = before_us == i64::MAX;
        match self.old.begin(before_us).await {
            Ok(Begun::Leased(old)) => Ok(Begun::Leased(Box::new(TwoBuilds::new(own, Ok(old))))),
            Ok(Begun::Busy) if is_by_hand => Ok(Begun::Busy),
            Ok(Begun::Busy) => Ok(Begun::Leased(own)),
            Err(error) => {
                tracing::warn!(%error, "the filter that is to be left is not rebuilt with the guard's own");
                let own = if is_by_hand { Box::new(TwoBuilds::new(own, Err(error))) } else { own };
                Ok(Begun::Leased(own))
            }
        }
    }

    /// Takes the steps of the hand-over. Each waits until all processes have read of it.
    async fn hand_over_now(&self) -> Result<(), StoreError> {
        let step = self.hand_over_is();
        if step < Some(HandOver::Done) {
            self.note(HandOver::Begun).await?;
            // Its Redis may be gone, and no process hangs on it that knows of the other filter.
            self.old.leave().await.ok();
            self.note(HandOver::Done).await?;
        }
        // A replica that took over meanwhile may lack it.
        let told = self.old.leave().await;
        told.map_err(|error| self.failed(&format!("{NOT_LEFT}: {error}")))
    }

    fn failed(&self, reason: &str) -> StoreError {
        StoreError::Move { old: self.old_name.clone(), reason: reason.to_owned() }
    }

    /// Whether the former filter is a guard's of which this process knows that it is new.
    fn is_old_new(&self) -> bool {
        self.keeps_both() && self.old.condition().settling.is_some()
    }

    async fn note(&self, step: HandOver) -> Result<(), StoreError> {
        match self.own.change_fleet(FleetChange::HandOver(step)).await {
            Ok(()) => Ok(()),
            Err(FleetError::Store(error)) => Err(error),
            Err(_) => Err(StoreError::Changing),
        }
    }
}

impl Store for MigratingStore {
    fn start(&self) {
        self.own.start();
        self.old.start();
    }

    fn copied(&self, id: &Id) -> Option<Copied> {
        self.answering()?.copied(id)
    }

    fn digest(&self, id: &Id) -> Option<Digest> {
        self.of_nulls().digest(id)
    }

    fn check(&self, id: &Id, now: Instant, alone: bool) -> Answer<Lookup> {
        match self.answering() {
            Some(store) => store.check(id, now, alone),
            None => Answer::Ready(Lookup::unknown(Doubt::Disconnected)),
        }
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if !self.needs_old() {
                return self.own.add(ids).await;
            }
            let old = self.old.add(ids.clone()).await;
            let own = self.own.add(ids).await;
            // A process that has just begun has learnt by now that the former one was left.
            match old {
                Err(error) if self.needs_old() => Err(error),
                _ => own,
            }
        })
    }

    fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered> {
        self.of_nulls().remember(id, null)
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        self.of_nulls().remove(id, ttl)
    }

    fn distrust(&self, id: &Id, generation: Generation) -> BoxFuture<'_, Result<(), StoreError>> {
        let (old, own) = (self.old.distrust(id, generation), self.own.distrust(id, generation));
        let is_left = self.hand_over_is() > Some(HandOver::None);
        Box::pin(async move {
            let (old, own) = join(old, own).await;
            // One that was left may be away for good.
            if is_left { own } else { old.and(own) }
        })
    }

    fn condition(&self) -> Condition {
        let own = self.own.condition();
        match self.answering() {
            Some(store) => {
                let condition = store.condition();
                let wrong = self.is_old_new().then(|| self.failed(NEW).to_string());
                let trouble = wrong.or(condition.trouble);
                Condition { journal: own.journal, trouble, ..condition }
            }
            None => Condition {
                live: Err(Doubt::Disconnected),
                trouble: own.trouble.or_else(|| Some(NOT_TOLD.to_owned())),
                ..own
            },
        }
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        if self.keeps_both() { Box::pin(self.survey_both()) } else { self.own.survey() }
    }

    fn view_fleet(&self) -> BoxFuture<'_, Result<Option<FleetView>, StoreError>> {
        if self.keeps_both() { Box::pin(self.view_both()) } else { self.own.view_fleet() }
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        self.own.fleet_mode()
    }

    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        if !self.keeps_both() {
            return self.own.change_fleet(change);
        }
        Box::pin(async move {
            match change {
                FleetChange::Mode(_) | FleetChange::Rebuild => {
                    let both =
                        (self.own.change_fleet(change.clone()), self.old.change_fleet(change));
                    let (own, old) = join(both.0, both.1).await;
                    own.and(old)
                }
                FleetChange::Enforce { .. } => Err(FleetError::Migrating),
                FleetChange::Settled { .. } | FleetChange::HandOver(_) => {
                    self.own.change_fleet(change).await
                }
            }
        })
    }

    fn is_moving(&self) -> bool {
        self.keeps_both()
    }

    fn hand_over(&self) -> Option<Result<BoxFuture<'_, Result<(), StoreError>>, StoreError>> {
        let is_old_new = self.is_old_new();
        Some(if is_old_new { Err(self.failed(NEW)) } else { Ok(Box::pin(self.hand_over_now())) })
    }

    fn begin(&self, before_us: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        if self.keeps_both() {
            Box::pin(self.begin_both(before_us))
        } else {
            self.own.begin(before_us)
        }
    }
}
