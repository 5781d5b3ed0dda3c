//! The store of a guard on its way from another system's filter to one of its own.
//!
//! | | which filter answers | inserts go to | nulls |
//! |---|---|---|---|
//! | until the hand-over | the other system's | both | none |
//! | after it | the guard's own | both | the own store's |
//!
//! Why the old filter answers alone until then: it is the only one that has what other programs insert, and processes of
//! the application that do not know of the guard's own filter yet. The hand-over is a word in place of the statement of
//! trust, in the old filter's Redis. A batch of checks reads it behind the bits. So no process refuses by the old
//! filter afterwards, and from then on inserts may leave it out.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::foreign::ForeignStore;
use super::{
    Answer, Begun, BoxFuture, Condition, Copied, FleetChange, Lookup, NullClaim, Remembered, Store,
    Survey,
};
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::{Digest, Id};
use crate::mode::SharedMode;
use crate::nulls::scope::Scope;

/// Both filters.
#[derive(Debug)]
pub(crate) struct MigratingStore {
    own: Arc<dyn Store>,
    old: Arc<ForeignStore>,
}

impl MigratingStore {
    pub(crate) fn new(own: Arc<dyn Store>, old: Arc<ForeignStore>) -> Self {
        Self { own, old }
    }

    /// Returns the one that answers.
    fn answering(&self) -> &dyn Store {
        if self.old.is_handed_over() { &*self.own } else { &*self.old }
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
            self.old.add(ids.clone()).await?;
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
        Box::pin(async move {
            old.await?;
            own.await
        })
    }

    fn condition(&self) -> Condition {
        Condition { journal: self.own.condition().journal, ..self.answering().condition() }
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        self.own.survey()
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        self.own.fleet_mode()
    }

    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        self.own.change_fleet(change)
    }

    fn hand_over(&self) -> Option<BoxFuture<'_, Result<(), StoreError>>> {
        Some(Box::pin(self.old.hand_over()))
    }

    fn begin(&self, before_us: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        self.own.begin(before_us)
    }
}
