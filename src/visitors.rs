//! Who was told what, lately.

use crate::id::Id;
use crate::sightings::{Sightings, Trace, Tracer};

/// Callers remembered.
const RECENT_CALLERS: u64 = 1 << 15;

/// What requests were answered, as far as it is remembered: forgetting is always safe.
#[derive(Debug)]
pub(crate) struct Visitors {
    tracer: Tracer,
    /// Ids that exist, as somebody was told.
    seen: Sightings,
    /// Ids together with the callers who were told so.
    seen_by: Sightings,
    /// Callers with credentials who were shown a record that others are told is missing.
    callers: Sightings,
    /// Ids that are missing, as somebody was told, and that no null covers.
    missed: Sightings,
    /// Ids whose last request was given up before its answer.
    abandoned: Sightings,
}

/// Who asks for what: good within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visitor {
    id: Trace,
    caller: Option<Trace>,
    both: Trace,
}

impl Visitor {
    /// The id asked for.
    pub(crate) fn id(&self) -> Trace {
        self.id
    }
}

/// What is known of a request that the filter lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing that speaks against it, or its caller was told that the record exists.
    Good,
    /// The record was missing.
    Missed,
    /// The same, from a caller whose credentials have been good for something.
    MissedByKnown,
    /// The last request for it was given up.
    Abandoned,
}

impl Visitors {
    /// Remembers so many ids.
    pub(crate) fn new(ids: u64) -> Self {
        Self {
            tracer: Tracer::new(),
            seen: Sightings::new(ids),
            seen_by: Sightings::new(ids),
            callers: Sightings::new(RECENT_CALLERS),
            missed: Sightings::new(2 * ids),
            abandoned: Sightings::new(ids),
        }
    }

    /// Recognises who asks for an id with these credentials.
    pub(crate) fn recognise<'a>(
        &self,
        id: &Id,
        credentials: impl IntoIterator<Item = &'a [u8]>,
    ) -> Visitor {
        let (id, caller) = (self.tracer.trace(id), self.tracer.caller(credentials));
        Visitor { id, caller, both: self.tracer.both(id, caller) }
    }

    pub(crate) fn standing(&self, visitor: &Visitor) -> Standing {
        if self.missed.hold(visitor.id) {
            if self.was_shown(visitor) {
                return Standing::Good;
            }
            // Credentials that were good for what others may not see are not to be had for the asking.
            let known = visitor.caller.is_some_and(|caller| self.callers.hold(caller));
            return if known { Standing::MissedByKnown } else { Standing::Missed };
        }
        if self.abandoned.hold(visitor.id) && !self.seen.hold(visitor.id) {
            Standing::Abandoned
        } else {
            Standing::Good
        }
    }

    /// Whether anybody was lately told that an id exists.
    pub(crate) fn know_of(&self, id: Trace) -> bool {
        self.seen.hold(id)
    }

    /// Whether this caller was lately told that the id exists.
    pub(crate) fn was_shown(&self, visitor: &Visitor) -> bool {
        self.seen_by.hold(visitor.both)
    }

    /// The record of an id was found. Says whether this caller had been told so before.
    pub(crate) fn found(&self, visitor: &Visitor) -> bool {
        // What anybody is shown says nothing of who asks.
        if let Some(caller) = visitor.caller
            && self.missed.hold(visitor.id)
        {
            self.callers.note(caller);
        }
        let again = self.was_shown(visitor);
        if !again {
            self.seen_by.note(visitor.both);
            self.missed.forget(visitor.id);
        }
        self.seen.note(visitor.id);
        again
    }

    /// The record of an id was missing, and no null says so.
    pub(crate) fn missed(&self, visitor: &Visitor) {
        self.missed.note(visitor.id);
    }

    /// This caller is not told any more that the id exists.
    pub(crate) fn lost(&self, visitor: &Visitor) {
        self.seen_by.forget(visitor.both);
    }

    /// Nobody is.
    pub(crate) fn lost_for_all(&self, visitor: &Visitor) {
        self.seen.forget(visitor.id);
    }

    /// A request was answered, one way or another.
    pub(crate) fn answered(&self, visitor: &Visitor) {
        if self.abandoned.hold(visitor.id) {
            self.abandoned.forget(visitor.id);
        }
    }

    /// A request that had passed the filter was given up before its answer, which nobody will learn.
    pub(crate) fn abandoned(&self, visitor: &Visitor) {
        self.abandoned.note(visitor.id);
    }

    /// The record of an id is about to be created.
    pub(crate) fn created(&self, id: &Id) {
        let trace = self.tracer.trace(id);
        self.seen.note(trace);
        self.missed.forget(trace);
        self.abandoned.forget(trace);
    }

    /// The record of an id was deleted.
    pub(crate) fn removed(&self, id: &Id) {
        self.seen.forget(self.tracer.trace(id));
    }

    /// What was missing is not to be believed.
    pub(crate) fn forget_missed(&self) {
        self.missed.clear();
    }
}
