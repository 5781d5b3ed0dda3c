//! The store of a guard on its way from another filter to its own.
//!
//! | | which filter answers | inserts go to | rebuilds make | nulls |
//! |---|---|---|---|---|
//! | until the hand-over | the former | both | both, where the former is a guard's, too | the former's, where it is a guard's |
//! | after it | the guard's own | both, the former if it does not say that it was left | the guard's own | the guard's own |
//!
//! Why the former filter answers alone until then: it is the only one that has what processes insert which do not know of the
//! other one yet. The hand-over is written where each batch of checks of the former filter reads it: in place of the statement
//! of trust beside another system's, in the header of a guard's. So no process refuses by the former filter afterwards.
//!
//! Why inserts meet the former filter first, and go there even after the hand-over: its Redis may lose what was written. Then
//! a process that has not seen it goes by that filter again.

mod two_builds;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::{Instant, sleep};

use self::two_builds::TwoBuilds;
use super::former::Former;
use super::{
    Answer, Begun, BoxFuture, Condition, Copied, FleetChange, FleetView, Lookup, NullClaim,
    Remembered, Store, Survey,
};
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::{Digest, Id};
use crate::mode::SharedMode;
use crate::nulls::scope::Scope;

/// Within this time every process of a filter asks how it stands.
const READ: Duration = Duration::from_secs(3);

/// Both filters.
#[derive(Debug)]
pub(crate) struct MigratingStore {
    own: Arc<dyn Store>,
    old: Arc<dyn Former>,
}

impl MigratingStore {
    pub(crate) fn new(own: Arc<dyn Store>, old: Arc<dyn Former>) -> Self {
        Self { own, old }
    }

    /// Returns the one that answers.
    fn answering(&self) -> &dyn Store {
        if self.old.is_left() { &*self.own } else { &*self.old }
    }

    /// Whether the former filter is a guard's, and answers still.
    fn keeps_both(&self) -> bool {
        self.old.is_own() && !self.old.is_left()
    }

    /// Asks how both stand. The guard's own answers for them, but no transaction is over that anybody states for either: where
    /// one cannot be asked, it is not known which do.
    async fn survey_both(&self) -> Result<Survey, StoreError> {
        let (own, old) = join(self.own.survey(), self.old.survey()).await;
        let (mut own, old) = (own?, old?);
        own.live = own.live.and_then(|live| old.live.map(|_| live));
        own.due_us = own.due_us.max(old.due_us);
        own.fleet = own.fleet.zip(old.fleet).map(|(own, old)| FleetView {
            longest_transaction: own.longest_transaction.max(old.longest_transaction),
            ..own
        });
        Ok(own)
    }

    /// Begins a rebuild of both, or of one alone where the other is being rebuilt, is not due, or does not answer.
    async fn begin_both(&self, before_us: i64) -> Result<Begun, StoreError> {
        let own = match self.own.begin(before_us).await? {
            Begun::Leased(own) => own,
            // Of its own shards none may be due. Where all are, another process is at it.
            Begun::Busy if before_us < i64::MAX => return self.old.begin(before_us).await,
            Begun::Busy => return Ok(Begun::Busy),
        };
        match self.old.begin(before_us).await {
            Ok(Begun::Leased(old)) => Ok(Begun::Leased(Box::new(TwoBuilds::new(own, old)))),
            Ok(Begun::Busy) => Ok(Begun::Leased(own)),
            Err(error) => {
                tracing::warn!(%error, "the filter that is to be left is not rebuilt with the guard's own");
                Ok(Begun::Leased(own))
            }
        }
    }

    /// Writes down that the former filter was left, and waits until its processes have read that.
    async fn leave(&self) -> Result<(), StoreError> {
        if !self.old.is_own() {
            return self.old.leave().await;
        }
        let (own, old) = join(self.own.survey(), self.old.survey()).await;
        match (own?.fleet, old?.fleet) {
            (Some(own), Some(old)) if !own.shares_metadata_with(&old) => {}
            // It is one filter, by two addresses, or that cannot be told.
            _ => return Err(StoreError::Changing),
        }
        self.old.leave().await?;
        sleep(READ).await;
        // A replica that took over within that time may lack it.
        self.old.leave().await
    }
}

impl Store for MigratingStore {
    fn start(&self) {
        self.own.start();
        self.old.start();
    }

    fn copied(&self, id: &Id) -> Option<Copied> {
        self.answering().copied(id)
    }

    fn digest(&self, id: &Id) -> Option<Digest> {
        self.answering().digest(id)
    }

    fn check(&self, id: &Id, now: Instant) -> Answer<Lookup> {
        self.answering().check(id, now)
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.old.add_until_left(ids.clone()).await?;
            self.own.add(ids).await
        })
    }

    fn remember(
        &self,
        id: &Id,
        claim: NullClaim,
        scope: Scope,
        ttl: Duration,
    ) -> Answer<Remembered> {
        self.answering().remember(id, claim, scope, ttl)
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        self.answering().remove(id, ttl)
    }

    fn distrust(&self, id: &Id, generation: Generation) -> BoxFuture<'_, Result<(), StoreError>> {
        let (old, own) = (self.old.distrust(id, generation), self.own.distrust(id, generation));
        let is_left = self.old.is_left();
        Box::pin(async move {
            let (old, own) = join(old, own).await;
            // One that was left may be away for good.
            if is_left { own } else { old.and(own) }
        })
    }

    fn condition(&self) -> Condition {
        Condition { journal: self.own.condition().journal, ..self.answering().condition() }
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        if self.keeps_both() { Box::pin(self.survey_both()) } else { self.own.survey() }
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
                FleetChange::Settled { .. } => self.own.change_fleet(change).await,
            }
        })
    }

    fn hand_over(&self) -> Option<BoxFuture<'_, Result<(), StoreError>>> {
        Some(Box::pin(self.leave()))
    }

    fn begin(&self, before_us: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        if self.keeps_both() {
            Box::pin(self.begin_both(before_us))
        } else {
            self.own.begin(before_us)
        }
    }
}
