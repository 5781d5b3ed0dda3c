//! What watches that refusals are right.
//!
//! A few refusals are let through. One that finds a record is looked into here: asked again, as the
//! record may have been created just then, and if the guard still holds it absent, that is an alarm. So it is if several of the
//! records that this process serves are missing from the filter.

use std::collections::VecDeque;
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
use crate::store::{Distrusted, Lookup, Store};
use crate::verdict::{Doubt, Proof, Verdict};

/// The most findings that wait to be looked into.
const ROOM: usize = 256;
/// The least time between two alarms in the log.
const PAUSE: Duration = Duration::from_secs(1);
/// The same for records that a settling filter lacks.
const UNSETTLED_PAUSE: Duration = Duration::from_secs(60);

/// Records that were found although the guard held them absent.
pub(crate) struct Findings {
    waiting: Mutex<VecDeque<Id>>,
    /// Ids that are served, and looked up, too.
    pub(super) served: Served,
    arrived: Notify,
    /// Those that turned out to be alarms.
    pub(crate) untaken: Untaken,
    alarms: Throttle,
    /// Lines about records that a filter lacked while it settled.
    unsettled: Throttle,
}

impl Findings {
    pub(crate) fn new(audits: u32) -> Self {
        Self {
            waiting: Mutex::default(),
            served: Served::new(audits),
            arrived: Notify::new(),
            untaken: Untaken::default(),
            alarms: Throttle::new(PAUSE),
            unsettled: Throttle::new(UNSETTLED_PAUSE),
        }
    }

    /// Reports one; says whether there was room for it.
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

    /// Looks into all that are reported, for as long as it is polled.
    pub(crate) async fn look_into(&self, store: &Store, metrics: &Metrics) {
        loop {
            if let Some(id) = self.take() {
                self.judge(store, metrics, id).await;
            } else if let Some(id) = self.served.take() {
                self.weigh(store, metrics, id).await;
            } else {
                self.arrived.notified().await;
            }
        }
    }

    async fn judge(&self, store: &Store, metrics: &Metrics, id: Id) {
        let Lookup { verdict, claim, .. } = store.look_up(&id).await;
        match verdict {
            Verdict::Absent(proof) => {
                self.raise(proof, store.is_shared());
                return self.mend(store, metrics, id, claim.generation, proof).await;
            }
            Verdict::Unknown(Doubt::Settling) => {
                metrics.found_unsettled.add(1);
                self.tell_of_unsettled();
            }
            Verdict::Present => store.audit_copy(&id).await,
            Verdict::Unknown(_) => {}
        }
        // Whatever the answer is now, the record is there: an insert costs nothing and mends what it can.
        add(store, &id).await;
    }

    /// Inserts an id that was held absent, and tells the application.
    async fn mend(
        &self,
        store: &Store,
        metrics: &Metrics,
        id: Id,
        generation: Option<Generation>,
        proof: Proof,
    ) {
        metrics.false_negatives.add(1);
        add(store, &id).await;
        // A false null is mended by the insert; a filter without one id may be without others.
        if let (Proof::Filter, Some(generation)) = (proof, generation) {
            distrust(store, &id, generation).await;
        }
        self.untaken.push(id, generation, proof);
    }

    async fn weigh(&self, store: &Store, metrics: &Metrics, id: Id) {
        let found = store.look_up(&id).await;
        let missing = self.served.weigh(id, &found, Instant::now());
        if !missing.is_empty() {
            let records = missing.len();
            let ask = ask(store.is_shared());
            tracing::error!(
                records,
                "the filter lacks records that this process serves: {ask} next_finding() gives their ids"
            );
        }
        for (id, generation) in missing {
            self.mend(store, metrics, id, Some(generation), Proof::Filter).await;
        }
    }

    fn tell_of_unsettled(&self) {
        if let Some(records) = self.unsettled.note(Instant::now()) {
            tracing::warn!(
                records,
                "a record was found that the new filter lacks, and is inserted: a process creates records and does not \
                 insert them into this filter. It has to be gone before the filter has settled"
            );
        }
    }

    fn raise(&self, proof: Proof, is_shared: bool) {
        if let Some(records) = self.alarms.note(Instant::now()) {
            let ask = ask(is_shared);
            tracing::error!(
                proof = proof.as_str(),
                records,
                "a record exists that the guard holds absent: {ask} Else it was created without insert, the source does not give \
                 it, or the handler answers 2xx for what does not exist. next_finding() gives its id"
            );
        }
    }
}

/// Returns the first thing to look for when records are missing from the filter.
const fn ask(is_shared: bool) -> &'static str {
    if is_shared {
        "does another service or another table use this name?"
    } else {
        "the filter is in this process: do several processes create records?"
    }
}

async fn add(store: &Store, id: &Id) {
    if let Err(error) = store.add(vec![id.clone()]).await {
        tracing::warn!(%error, "an id found missing from the filter could not be added");
    }
}

/// Puts a filter out of use that lacks an id.
async fn distrust(store: &Store, id: &Id, generation: Generation) {
    match store.distrust(id, generation).await {
        Ok(Distrusted::Stays) => {}
        Ok(Distrusted::Disproved) => {
            tracing::error!(
                %generation,
                "the live filter is incomplete and out of use until it is rebuilt: next_finding() gives the id it lacked"
            );
        }
        Ok(Distrusted::DisprovedTwice(other)) => {
            let words =
                if store.is_shared() { "is the name used by two services?" } else { ask(false) };
            tracing::error!(
                %generation,
                digest = store.digest(id).map(display),
                other = %other,
                "the filter that took a disproved one's place lacks two records: {words} It refuses nothing until the next rebuild \
                 by schedule or by hand"
            );
        }
        Err(error) => tracing::warn!(%error, "a filter found incomplete could not be marked so"),
    }
}
