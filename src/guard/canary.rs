//! What watches that refusals are right.
//!
//! A few refusals are let through. If one finds a record, its id is asked again, as the record may have been created just then. If the
//! guard still holds it absent, that is an alarm. So it is if the filter lacks several of the records that this process serves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::finding::Untaken;
use super::served::Served;
use crate::decide::bucket::Throttle;
use crate::filter::Generation;
use crate::id::Id;
use crate::observe::metrics::Metrics;
use crate::store::{Lookup, Store};
use crate::verdict::{Doubt, Proof, Verdict};

/// The most findings that wait to be looked into.
const ROOM: usize = 256;
/// The least time between two alarms in the log.
const PAUSE: Duration = Duration::from_secs(1);

/// Records that were found although the guard held them absent.
pub(crate) struct Findings {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    waiting: Mutex<VecDeque<Id>>,
    pub(super) served: Served,
    arrived: Notify,
    pub(crate) untaken: Untaken,
    alarms: Throttle,
}

impl Findings {
    pub(crate) fn new(store: Arc<Store>, metrics: Arc<Metrics>, audits: u32) -> Self {
        Self {
            store,
            metrics,
            waiting: Mutex::default(),
            served: Served::new(audits),
            arrived: Notify::new(),
            untaken: Untaken::default(),
            alarms: Throttle::new(PAUSE),
        }
    }

    /// Returns whether there was room for it.
    pub(crate) fn report(&self, id: Id) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.contains(&id) {
            return true;
        }
        let room = waiting.len() < ROOM;
        if room {
            waiting.push_back(id);
            self.arrived.notify_one();
        }
        room
    }

    /// Notes that a request of this moment was served, and nobody was asked about its id.
    pub(crate) fn serves(&self, id: &Id, asked: Instant, now: Instant) {
        if self.served.note(id, asked, now) {
            self.arrived.notify_one();
        }
    }

    fn take(&self) -> Option<Id> {
        self.waiting.lock().pop_front()
    }

    pub(crate) async fn look_into(&self) {
        loop {
            if let Some(id) = self.take() {
                self.judge(id).await;
            } else if let Some(id) = self.served.take() {
                self.weigh(id).await;
            } else {
                self.arrived.notified().await;
            }
        }
    }

    async fn judge(&self, id: Id) {
        let Lookup { verdict, claim, .. } = self.store.look_up(&id).await;
        match verdict {
            Verdict::Absent(proof) => {
                return self.mend(id, claim.generation, proof).await;
            }
            Verdict::Unknown(Doubt::Settling) => self.metrics.found_unsettled.add(1),
            Verdict::Present => self.store.audit_copy(&id).await,
            Verdict::Unknown(_) => {}
        }
        // Whatever the answer is now, the record is there: an insert costs nothing and mends what it can.
        self.add(&id).await;
    }

    async fn weigh(&self, id: Id) {
        let found = self.store.look_up(&id).await;
        for (id, generation) in self.served.weigh(id, &found, Instant::now()) {
            self.mend(id, Some(generation), Proof::Filter).await;
        }
    }

    /// Inserts an id that was held absent, puts the filter out of use, and tells operator and application.
    async fn mend(&self, id: Id, generation: Option<Generation>, proof: Proof) {
        self.metrics.false_negatives.add(1);
        if let Some(records) = self.alarms.note(Instant::now()) {
            tracing::error!(
                proof = proof.as_str(),
                records,
                "a record exists that the guard holds absent: does another service or another table use this name? With \
                 in_process(): do several processes create records? Else it was created without insert, the source does not give \
                 it, or the handler answers 2xx for what does not exist. next_finding() gives its id"
            );
        }
        self.add(&id).await;
        // A false null is mended by the insert; a filter without one id may be without others.
        if let (Proof::Filter, Some(generation)) = (proof, generation) {
            match self.store.distrust(&id, generation).await {
                Ok(None) => {}
                Ok(Some(doubt)) => {
                    let advice = doubt.advice();
                    tracing::error!(%generation, "the live filter is out of use: {doubt}. {advice}");
                }
                Err(error) => {
                    tracing::warn!(%error, "a filter found incomplete could not be put out of use");
                }
            }
        }
        self.untaken.push(id, generation, proof);
    }

    async fn add(&self, id: &Id) {
        if let Err(error) = self.store.add(vec![id.clone()]).await {
            tracing::warn!(%error, "an id found missing from the filter could not be added");
        }
    }
}
