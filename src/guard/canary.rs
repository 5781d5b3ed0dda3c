//! What watches that refusals are right.
//!
//! A few refusals are let through. One that finds a record is looked into here: asked again, as the
//! record may have been created just then, and if the guard still holds it absent, that is an alarm.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::id::Id;
use crate::observe::metrics::Metrics;
use crate::observe::throttle::Throttle;
use crate::store::{Lookup, Store};
use crate::verdict::{Proof, Verdict};

/// Findings that wait to be looked into.
const ROOM: usize = 256;
/// The least time between two alarms in the log; all are counted.
const PAUSE: Duration = Duration::from_secs(1);

/// Records that were found although the guard held them absent.
pub(crate) struct Findings {
    waiting: Mutex<VecDeque<Id>>,
    arrived: Notify,
    alarms: Throttle,
}

impl Findings {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::default(), arrived: Notify::new(), alarms: Throttle::new(PAUSE) }
    }

    /// Reports one; says whether there was room for it.
    pub(crate) fn report(&self, id: Id) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let room = waiting.len() < ROOM;
        if room {
            waiting.push_back(id);
            self.arrived.notify_one();
        }
        room
    }

    fn take(&self) -> Option<Id> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
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
        let Lookup { verdict, claim, .. } = store.check(&id, Instant::now()).answer().await;
        if let Verdict::Absent(proof) = verdict {
            metrics.false_negatives.add(1);
            self.raise(proof);
        }
        // Whatever the answer is now, the record is there: an insert costs nothing and mends what it can.
        if let Err(error) = store.add(vec![id]).await {
            tracing::warn!(%error, "an id found missing from the filter could not be added");
        }
        // A false null is mended by the insert; a filter without one id may be without others.
        if verdict == Verdict::Absent(Proof::Filter)
            && let Some(generation) = claim.generation
            && let Err(error) = store.distrust(generation).await
        {
            tracing::warn!(%error, "a filter found incomplete could not be marked so");
        }
    }

    fn raise(&self, proof: Proof) {
        if let Some(records) = self.alarms.note(Instant::now()) {
            tracing::error!(
                proof = proof.as_str(),
                records,
                "a record exists that the guard holds absent: created without insert, not given by the source, or the \
                 filter's name is used by others, too"
            );
        }
    }
}

impl fmt::Debug for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Findings").finish_non_exhaustive()
    }
}
