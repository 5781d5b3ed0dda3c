//! What watches that refusals are right.
//!
//! A few refusals are let through. One that finds a record is looked into here: asked again, as the
//! record may have been created just then, and if the guard still holds it absent, that is an alarm.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::decide::bucket::Bucket;
use crate::guard::Core;
use crate::id::Id;
use crate::store::Lookup;
use crate::verdict::{Proof, Verdict};

/// Findings that wait to be looked into.
const ROOM: usize = 256;
/// Alarms written to the log in a second; all are counted.
const LOGGED: u32 = 1;

/// Records that were found although the guard held them absent.
pub(crate) struct Findings {
    waiting: Mutex<VecDeque<Id>>,
    arrived: Notify,
    logged: Bucket,
}

impl Findings {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            logged: Bucket::new(LOGGED, LOGGED),
        }
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
    pub(crate) async fn look_into(&self, core: &Core) {
        loop {
            while let Some(id) = self.take() {
                self.judge(core, id).await;
            }
            self.arrived.notified().await;
        }
    }

    async fn judge(&self, core: &Core, id: Id) {
        let Lookup { verdict, asked, .. } = core.look_up(&id).await;
        if let Verdict::Absent(proof) = verdict {
            core.metrics().false_negatives.add(1);
            self.raise(proof);
        }
        // Whatever the answer is now, the record is there: an insert costs nothing and mends what it can.
        if let Err(error) = core.insert(vec![id]).await {
            tracing::warn!(%error, "an id found missing from the filter could not be added");
        }
        // A false null is mended by the insert; a filter without one id may be without others.
        if verdict == Verdict::Absent(Proof::Filter)
            && let Some(generation) = asked.generation
            && let Err(error) = core.distrust(generation).await
        {
            tracing::warn!(%error, "a filter found incomplete could not be marked so");
        }
    }

    fn raise(&self, proof: Proof) {
        if self.logged.take(Instant::now()).is_ok() {
            tracing::error!(
                proof = proof.as_str(),
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
