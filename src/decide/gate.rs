//! What becomes of a request: proofs refuse, and what is not proven passes as far as it can be borne.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::decide::brake::Brake;
use crate::decide::bucket::Bucket;
use crate::decide::lane::{Lane, Place};
use crate::decide::policy::{Mode, OnUnknown, Policy};
use crate::decide::sightings::{Sightings, Trace};
use crate::decide::visitors::{Manner, Standing, Visitor, Visitors};
use crate::nulls::scope::Scope;
use crate::verdict::{Doubt, Proof, Verdict};

/// Ids remembered as refused, as far as there is room in a flood.
const RECENTLY_REFUSED: u64 = 1 << 15;
/// The shortest and the longest time a client is told to stay away.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What rules on requests, and what it remembers to do so.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    mode: AtomicU8,
    /// Whether this process has seen a filter answer.
    built: AtomicBool,
    /// Whether it has seen that there was none yet.
    unbuilt: AtomicBool,
    visitors: Visitors,
    /// Ids that were refused.
    refused: Sightings,
    unknown_lane: Lane,
    missed_lane: Lane,
    /// The same for callers who are known.
    known_lane: Lane,
    /// The same for callers who were told that they exist, while the backend is not believed.
    doubted_lane: Lane,
    abandoned_lane: Lane,
    /// The same for what was lately shown, and is missing by hearsay.
    hearsay_lane: Lane,
    audits: Bucket,
    brake: Brake,
    /// The same for requests with a query, whose 404s anybody can bring about.
    brake_on_queries: Brake,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Ruling {
    Admit(Admission),
    Refuse(Proof),
    /// There is no room for it now.
    Busy {
        retry_after: Duration,
    },
}

/// A request that passes.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) why: Why,
    /// Its place in a lane, until it is answered.
    pub(crate) place: Option<Place>,
}

/// Why a request passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The filter lets it.
    Present,
    /// It was lately shown, and somebody was told that it is missing.
    Hearsay,
    /// The answer is unknown, and the id was lately seen to exist.
    Seen,
    /// The answer is unknown.
    Unknown,
    /// It would be refused, but somebody has to look whether refusals are right.
    Audit(Proof),
    /// It would be refused, if refusals were on.
    Shadow(Proof),
}

impl Gate {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            mode: AtomicU8::new(policy.mode as u8),
            built: AtomicBool::new(false),
            unbuilt: AtomicBool::new(false),
            visitors: Visitors::new(policy.recently_seen),
            refused: Sightings::new(RECENTLY_REFUSED),
            unknown_lane: Lane::new(policy.lane),
            missed_lane: Lane::new(policy.lane),
            known_lane: Lane::new(policy.lane),
            doubted_lane: Lane::new(policy.lane),
            abandoned_lane: Lane::new(policy.lane),
            hearsay_lane: Lane::new(policy.lane),
            // An audit is a sample: the first refusal is no better one than the next.
            audits: Bucket::sampling(policy.audits),
            brake: Brake::new("any", Instant::now()),
            brake_on_queries: Brake::new("with a query", Instant::now()),
            policy,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            mode if mode == Mode::Shadow as u8 => Mode::Shadow,
            mode if mode == Mode::Off as u8 => Mode::Off,
            _ => Mode::Enforce,
        }
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// What requests were answered lately.
    pub(crate) fn visitors(&self) -> &Visitors {
        &self.visitors
    }

    /// Rules on a request for an id about which this was found.
    pub(crate) fn rule(&self, visitor: &Visitor, verdict: Verdict, now: Instant) -> Ruling {
        let enforced = self.mode() == Mode::Enforce;
        match verdict {
            Verdict::Absent(proof) => {
                self.note_built();
                if !enforced {
                    Ruling::admit(Why::Shadow(proof), None)
                } else if visitor.manner() != Manner::Acting && self.audits(visitor.id(), now) {
                    Ruling::admit(Why::Audit(proof), None)
                } else {
                    Ruling::Refuse(proof)
                }
            }
            Verdict::Present => {
                self.note_built();
                if enforced { self.rule_on_present(visitor, now) } else { PASS }
            }
            Verdict::Unknown(_) if !enforced => Ruling::admit(Why::Unknown, None),
            Verdict::Unknown(doubt) => match self.on(doubt) {
                OnUnknown::Pass => Ruling::admit(Why::Unknown, None),
                OnUnknown::PassLimited if self.exists(visitor, now) => {
                    Ruling::admit(Why::Seen, None)
                }
                OnUnknown::PassLimited => Ruling::by_lane(&self.unknown_lane, Why::Unknown, now),
                OnUnknown::Shed => Ruling::Busy { retry_after: RETRY.0 },
            },
        }
    }

    /// Rules on a request that only a remembered 404 speaks against, which some handler gave. Where the record
    /// was lately shown, the request looks for itself, by a lane: not every backend is as good as one's own.
    pub(crate) fn rule_on_hearsay(&self, visitor: &Visitor, proof: Proof, now: Instant) -> Ruling {
        let looks = visitor.manner() != Manner::Acting && self.exists(visitor, now);
        if self.mode() == Mode::Enforce && looks {
            Ruling::by_lane(&self.hearsay_lane, Why::Hearsay, now)
        } else {
            self.rule(visitor, Verdict::Absent(proof), now)
        }
    }

    /// Whether to let a refusal through for a look. Ids that were seen to exist go first, and those
    /// that are asked for again: a random flood does not repeat itself, and who wants a record does.
    fn audits(&self, trace: Trace, now: Instant) -> bool {
        // Most refusals end here: the sets are looked at while there is something to decide.
        if !self.audits.has_any(now) {
            return false;
        }
        let suspicious = self.visitors.know_of(trace) || self.refused.hold(trace);
        self.refused.note(trace);
        let taken = if suspicious { self.audits.take(now) } else { self.audits.take_spare(now) };
        taken.is_ok()
    }

    /// Rules on a request that passed the filter: some ids keep to a lane all the same.
    fn rule_on_present(&self, visitor: &Visitor, now: Instant) -> Ruling {
        let lane = match self.visitors.standing(visitor, now) {
            Standing::Good => return PASS,
            Standing::Shown if !self.disbelieves(now) => return PASS,
            // Where the backend is back, that is how it is found out.
            Standing::Shown if self.visitors.try_once(visitor, now) => return PASS,
            Standing::Shown => &self.doubted_lane,
            Standing::Sought => return Ruling::Busy { retry_after: RETRY.0 },
            Standing::Missed => &self.missed_lane,
            Standing::MissedByKnown => &self.known_lane,
            Standing::Abandoned => &self.abandoned_lane,
        };
        let ruling = Ruling::by_lane(lane, Why::Present, now);
        if let Ruling::Admit(_) = ruling {
            self.visitors.seek(visitor, now);
        }
        ruling
    }

    /// Whether an id was lately seen to exist, and nothing else since.
    fn exists(&self, visitor: &Visitor, now: Instant) -> bool {
        self.visitors.know_of(visitor.id())
            && matches!(self.visitors.standing(visitor, now), Standing::Good | Standing::Shown)
    }

    /// The record of an id was found.
    pub(crate) fn found(&self, visitor: &Visitor) {
        if self.visitors.found(visitor) {
            if visitor.manner() == Manner::WithQuery {
                self.brake_on_queries.found();
            }
            self.brake.found();
            if self.brake.is_held() {
                self.visitors.regained(visitor);
            }
        }
    }

    /// The record of an id was missing, for all requests of this scope. Says whether that may be
    /// remembered.
    pub(crate) fn missing(&self, visitor: &Visitor, scope: Scope, now: Instant) -> bool {
        // What somebody else was told does not count: who sees less must not be able to pull the brake.
        if self.visitors.was_shown(visitor) {
            self.brake.lost();
        }
        if self.disbelieves(now) {
            return false;
        }
        self.visitors.lost(visitor);
        // Nor make the guard forget what others saw.
        if scope == Scope::ALL {
            self.visitors.lost_for_all(visitor);
        }
        true
    }

    /// The record of an id was missing, as this caller was told and others may not be.
    pub(crate) fn missing_to_caller(&self, visitor: &Visitor, now: Instant) {
        // Somebody who signed out is one, however many records he saw before.
        if self.visitors.was_shown(visitor) && self.visitors.loses_first(visitor, now) {
            self.brake.lost();
        }
        if !self.disbelieves(now) {
            self.visitors.lost(visitor);
        }
        self.visitors.missed(visitor);
    }

    /// Something was missing that may be another thing than the record.
    pub(crate) fn missing_part(&self, visitor: &Visitor) {
        // Of what this caller was never shown anybody can bring about as many as he likes.
        if visitor.manner() == Manner::WithQuery && self.visitors.was_shown(visitor) {
            self.brake_on_queries.lost();
        }
        self.visitors.lost(visitor);
        self.visitors.missed(visitor);
    }

    /// Whether a 404 to this request is no null, as it may be about another thing than the record: the
    /// record was lately shown, or many that were are answered so.
    pub(crate) fn is_about_a_part(&self, visitor: &Visitor, now: Instant) -> bool {
        self.visitors.know_of(visitor.id()) || self.brake_on_queries.look(now)
    }

    /// Whether the backend's 404s are not believed at present.
    fn disbelieves(&self, now: Instant) -> bool {
        let held = self.brake.look(now);
        self.visitors.believe(!held);
        held
    }

    fn on(&self, doubt: Doubt) -> OnUnknown {
        let built = self.built.load(Ordering::Relaxed);
        if doubt == Doubt::NoFilter && !built {
            self.unbuilt.store(true, Ordering::Relaxed);
        }
        // An answer that is late is the same that others got; a setting of the server's is no outage.
        let unbuilt = !built && self.unbuilt.load(Ordering::Relaxed);
        if unbuilt || doubt == Doubt::Eviction {
            self.policy.on_unbuilt
        } else {
            self.policy.on_unknown
        }
    }

    fn note_built(&self) {
        if !self.built.load(Ordering::Relaxed) {
            self.built.store(true, Ordering::Relaxed);
        }
    }
}

/// It passed the filter.
const PASS: Ruling = Ruling::admit(Why::Present, None);

impl Ruling {
    const fn admit(why: Why, place: Option<Place>) -> Self {
        Self::Admit(Admission { why, place })
    }

    fn by_lane(lane: &Lane, why: Why, now: Instant) -> Self {
        match lane.enter(now) {
            Ok(place) => Self::admit(why, Some(place)),
            Err(wait) => Self::Busy { retry_after: wait.clamp(RETRY.0, RETRY.1) },
        }
    }
}

#[cfg(test)]
mod tests;
