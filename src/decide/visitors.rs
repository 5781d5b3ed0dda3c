//! Who was told what, lately.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::decide::sightings::{Sightings, Trace, Tracer};
use crate::id::Id;

/// Callers remembered.
const RECENT_CALLERS: u64 = 1 << 15;
/// Callers remembered for the second.
const CALLERS_OF_A_SECOND: u64 = 1 << 10;

/// How long an id is held to what became of its last request, at the longest: as long as a null lasts
/// by default, so that it makes no more look-ups possible than nulls do.
const SPELL: Duration = Duration::from_secs(30);

/// Callers who may try an id once in a spell though it was missing.
const TRIES: u64 = 8;

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
    /// Callers with credentials who are not shown what they were, by the second.
    losers: Sightings,
    /// Ids that are missing, as somebody was told; those found so while the backend is not believed, by
    /// the doubt.
    missed: Sightings,
    /// Odd while the backend is not believed. Counted up, so that what it said then is not met again.
    doubts: AtomicU64,
    /// Ids whose last request was given up before its answer, or failed, by the spell.
    abandoned: Sightings,
    /// Missing ids that somebody without credentials is looking for now, by the spell.
    sought: Sightings,
    origin: Instant,
}

/// In which manner a record is asked for: what one is answered says nothing to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// By its id alone.
    Plain,
    /// With parameters, one of which may be what is missing.
    WithQuery,
    /// By HEAD, which a service may not know.
    Head,
    /// To change it, which may be allowed to nobody who asks.
    Acting,
}

/// Who asks for what: good within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visitor {
    id: Trace,
    /// The id as it is asked for in this manner.
    asked: Trace,
    caller: Option<Trace>,
    both: Trace,
    manner: Manner,
}

impl Visitor {
    /// In which manner it asks.
    pub(crate) fn manner(&self) -> Manner {
        self.manner
    }

    /// The id asked for.
    pub(crate) fn id(&self) -> Trace {
        self.id
    }
}

/// What is known of a request that the filter lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing speaks against it.
    Good,
    /// The record was missing, and this caller had been told that it exists.
    Shown,
    /// The record was missing.
    Missed,
    /// The same, and somebody is looking for it already.
    Sought,
    /// The same, from a caller whose credentials have been good for something.
    MissedByKnown,
    /// The last request for it was given up, or failed.
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
            losers: Sightings::new(CALLERS_OF_A_SECOND),
            missed: Sightings::new(2 * ids),
            doubts: AtomicU64::new(0),
            abandoned: Sightings::new(ids),
            sought: Sightings::new(ids),
            origin: Instant::now(),
        }
    }

    /// Recognises who asks for an id with these credentials.
    pub(crate) fn recognise<'a>(
        &self,
        id: &Id,
        manner: Manner,
        credentials: impl IntoIterator<Item = &'a [u8]>,
    ) -> Visitor {
        let (id, caller) = (self.tracer.trace(id), self.tracer.caller(credentials));
        let asked = match manner {
            Manner::Plain => id,
            Manner::WithQuery => id.with_query(),
            Manner::Head => id.by_head(),
            Manner::Acting => id.with_query().by_head(),
        };
        Visitor { id, asked, caller, both: self.tracer.both(asked, caller), manner }
    }

    pub(crate) fn standing(&self, visitor: &Visitor, now: Instant) -> Standing {
        if self.is_missed(visitor) {
            return match visitor.caller {
                _ if self.was_shown(visitor) => Standing::Shown,
                // Credentials that were good for what others may not see are not to be had for the
                // asking.
                Some(caller) if self.callers.hold(caller) => Standing::MissedByKnown,
                // One answer is good for all without credentials; of others, each gets his own. So does who
                // asks with a query for what is there: another's query may have been another.
                None if self.sought.hold(self.lately(visitor, now))
                    && !(visitor.manner == Manner::WithQuery && self.seen.hold(visitor.id)) =>
                {
                    Standing::Sought
                }
                _ => Standing::Missed,
            };
        }
        if self.abandoned.hold(self.lately(visitor, now)) && !self.seen.hold(visitor.id) {
            Standing::Abandoned
        } else {
            Standing::Good
        }
    }

    /// Whether this caller has not tried this id before in this spell, and few others have: one who finds
    /// it is enough.
    pub(crate) fn try_once(&self, visitor: &Visitor, now: Instant) -> bool {
        let spell = self.spell(now);
        let first = |trace| {
            let first = !self.sought.hold(trace);
            self.sought.note(trace);
            first
        };
        // Numbers that no spell has.
        let tries = (0..TRIES).map(|n| visitor.asked.during(u64::MAX - spell * TRIES - n));
        first(visitor.both.during(spell)) && tries.into_iter().any(first)
    }

    fn lately(&self, visitor: &Visitor, now: Instant) -> Trace {
        visitor.asked.during(self.spell(now))
    }

    /// Whether the record was missing. What a plain GET missed others do, too.
    fn is_missed(&self, visitor: &Visitor) -> bool {
        let is_missed = |trace| {
            self.missed.hold(trace)
                || self.doubted(trace).is_some_and(|doubted| self.missed.hold(doubted))
        };
        is_missed(visitor.asked) || (visitor.asked != visitor.id && is_missed(visitor.id))
    }

    fn forget_missed(&self, trace: Trace) {
        self.missed.forget(trace);
        if let Some(doubted) = self.doubted(trace) {
            self.missed.forget(doubted);
        }
    }

    /// As what an id is missing while the backend is not believed; none while it is.
    fn doubted(&self, trace: Trace) -> Option<Trace> {
        let doubts = self.doubts.load(Ordering::Relaxed);
        (!doubts.is_multiple_of(2)).then(|| trace.during(doubts))
    }

    fn spell(&self, now: Instant) -> u64 {
        now.duration_since(self.origin).as_secs() / SPELL.as_secs()
    }

    /// Whether anybody was lately told that an id exists.
    pub(crate) fn know_of(&self, id: Trace) -> bool {
        self.seen.hold(id)
    }

    /// Whether this caller was lately told that the id exists.
    pub(crate) fn was_shown(&self, visitor: &Visitor) -> bool {
        self.seen_by.hold(visitor.both)
    }

    /// Whether this is the first record in this second that a caller is not shown any more. Of callers
    /// without credentials each is.
    pub(crate) fn loses_first(&self, visitor: &Visitor, now: Instant) -> bool {
        visitor.caller.is_none_or(|caller| {
            let lately = caller.during(now.duration_since(self.origin).as_secs());
            let first = !self.losers.hold(lately);
            self.losers.note(lately);
            first
        })
    }

    /// The record of an id was found. Says whether this caller had been told so before.
    pub(crate) fn found(&self, visitor: &Visitor) -> bool {
        // What anybody is shown says nothing of who asks.
        if let Some(caller) = visitor.caller
            && self.is_missed(visitor)
        {
            self.callers.note(caller);
        }
        let again = self.was_shown(visitor);
        if !again {
            self.seen_by.note(visitor.both);
            self.forget_missed(visitor.asked);
        }
        self.seen.note(visitor.id);
        again
    }

    /// The record of an id was missing.
    pub(crate) fn missed(&self, visitor: &Visitor) {
        self.missed.note(self.doubted(visitor.asked).unwrap_or(visitor.asked));
    }

    /// This caller is not told any more that the id exists.
    pub(crate) fn lost(&self, visitor: &Visitor) {
        self.seen_by.forget(visitor.both);
    }

    /// Nobody is.
    pub(crate) fn lost_for_all(&self, visitor: &Visitor) {
        self.seen.forget(visitor.id);
    }

    /// A request for a missing id passes.
    pub(crate) fn seek(&self, visitor: &Visitor, now: Instant) {
        if visitor.caller.is_none() {
            self.sought.note(self.lately(visitor, now));
        }
    }

    /// A request that kept to a lane was answered, one way or another.
    pub(crate) fn answered(&self, visitor: &Visitor, now: Instant) {
        let trace = self.lately(visitor, now);
        self.abandoned.forget(trace);
        self.sought.forget(trace);
    }

    /// A request that had passed the filter was given up before its answer, or failed: nobody learns
    /// whether the record is there.
    pub(crate) fn abandoned(&self, visitor: &Visitor, now: Instant) {
        let trace = self.lately(visitor, now);
        self.abandoned.note(trace);
        self.sought.forget(trace);
    }

    /// The record of an id is about to be created.
    pub(crate) fn created(&self, id: &Id) {
        let trace = self.tracer.trace(id);
        self.seen.note(trace);
        self.forget_missed(trace);
        for asked in [trace.by_head(), trace.with_query(), trace.with_query().by_head()] {
            self.forget_missed(asked);
        }
    }

    /// The record of an id was deleted.
    pub(crate) fn removed(&self, id: &Id) {
        self.seen.forget(self.tracer.trace(id));
    }

    /// The record of an id is there after all.
    pub(crate) fn regained(&self, visitor: &Visitor) {
        self.forget_missed(visitor.asked);
    }

    /// The backend is believed from now on, or not. What was missing while it was not is forgotten when
    /// it is again; what was missing before stays so, lest whoever can bring the doubt about have it all
    /// looked up once more.
    pub(crate) fn believe(&self, believed: bool) {
        let doubts = self.doubts.load(Ordering::Relaxed);
        if doubts.is_multiple_of(2) != believed {
            // Whoever comes second changes nothing.
            let _ = self.doubts.compare_exchange(
                doubts,
                doubts + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}
