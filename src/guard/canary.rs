//! What watches that refusals are right.
//!
//! A few refusals are let through. One that finds a record is looked into here: asked again, as the
//! record may have been created just then, and if the guard still holds it absent, that is an alarm.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::finding::{Finding, Untaken};
use crate::id::Id;
use crate::observe::metrics::Metrics;
use crate::observe::throttle::Throttle;
use crate::store::{Lookup, Store, look_up};
use crate::verdict::{Doubt, Proof, Verdict};

/// Findings that wait to be looked into.
const ROOM: usize = 256;
/// The least time between two alarms in the log; all are counted.
const PAUSE: Duration = Duration::from_secs(1);
/// The same for records that a filter lacked while it settled.
const UNSETTLED_PAUSE: Duration = Duration::from_secs(60);

/// Records that were found although the guard held them absent.
pub(crate) struct Findings {
    waiting: Mutex<VecDeque<Id>>,
    arrived: Notify,
    /// Those that turned out to be alarms.
    untaken: Untaken,
    alarms: Throttle,
    /// Lines about records that a filter lacked while it settled.
    unsettled: Throttle,
}

impl Findings {
    pub(crate) fn new(filter: &Arc<str>) -> Self {
        let alarms = Throttle::new(filter, PAUSE, tell_of_more);
        let unsettled = Throttle::new(filter, UNSETTLED_PAUSE, tell_of_more_unsettled);
        let (waiting, arrived) = (Mutex::default(), Notify::new());
        Self { waiting, arrived, untaken: Untaken::new(), alarms, unsettled }
    }

    /// Writes the lines that end bursts, for as long as it is polled.
    pub(crate) async fn tell_rests(&self) {
        tokio::join!(self.alarms.tell_rests(), self.unsettled.tell_rests());
    }

    /// Waits for the next one that the application has not taken.
    pub(crate) async fn next(&self) -> Finding {
        self.untaken.next().await
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

    fn take(&self) -> Option<Id> {
        self.waiting.lock().pop_front()
    }

    /// Looks into all that are reported, for as long as it is polled.
    pub(crate) async fn look_into(&self, store: &dyn Store, metrics: &Metrics) {
        loop {
            while let Some(id) = self.take() {
                self.judge(store, metrics, id).await;
            }
            self.arrived.notified().await;
        }
    }

    async fn judge(&self, store: &dyn Store, metrics: &Metrics, id: Id) {
        let Lookup { verdict, claim, .. } = look_up(store, &id).await;
        match verdict {
            Verdict::Absent(proof) => {
                metrics.false_negatives.add(1);
                self.raise(proof);
            }
            Verdict::Unknown(Doubt::Settling) => {
                metrics.found_unsettled.add(1);
                self.tell_of_unsettled();
            }
            Verdict::Present | Verdict::Unknown(_) => {}
        }
        // Whatever the answer is now, the record is there: an insert costs nothing and mends what it can.
        if let Err(error) = store.add(vec![id.clone()]).await {
            tracing::warn!(%error, "an id found missing from the filter could not be added");
        }
        // A false null is mended by the insert; a filter without one id may be without others.
        if verdict == Verdict::Absent(Proof::Filter)
            && let Some(generation) = claim.generation
            && let Err(error) = store.distrust(&id, generation).await
        {
            tracing::warn!(%error, "a filter found incomplete could not be marked so");
        }
        if let Verdict::Absent(proof) = verdict {
            self.untaken.push(id, claim.generation, proof);
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

    fn raise(&self, proof: Proof) {
        if let Some(records) = self.alarms.note(Instant::now()) {
            tracing::error!(
                proof = proof.as_str(),
                records,
                "a record exists that the guard holds absent: created without insert, not given by the source, or the \
                 filter's name is used by others, too. next_finding() gives its id"
            );
        }
    }
}

fn tell_of_more_unsettled(filter: &str, records: u64) {
    tracing::warn!(parent: None, filter, records, "more records were found that the new filter lacked");
}

fn tell_of_more(filter: &str, records: u64) {
    tracing::error!(parent: None, filter, records, "more records exist that the guard held absent");
}
