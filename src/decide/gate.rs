//! The table: which requests pass, and what is remembered of their answers.

pub(crate) mod list;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::bucket::Bucket;
use super::lane::{Lane, LaneState, Permit};
use super::policy::{OnUnknown, Policy};
use super::recent::{IdHash, IdHasher, RecentIds};
use crate::id::Id;
use crate::mode::{Mode, SharedMode};
use crate::verdict::{Doubt, Proof, Verdict};

/// For how long a record counts as found lately.
const FOUND: Duration = Duration::from_secs(10 * 60);
/// For how many lives of a null an id counts as missed lately: for longer than any null lasts, which is
/// 1.1 of them at the most, and for less than two.
const MISSED_LIFE: f64 = 1.5;
/// For how long it holds that there was no filter yet.
const SAID: Duration = Duration::from_secs(2);
/// The shortest and the longest time a client is told to stay away.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What decides on requests, and what it remembers to do so.
pub(crate) struct Gate {
    on_unknown: OnUnknown,
    /// This process's mode, and the fleet's.
    mode: SharedMode,
    fleet: Arc<SharedMode>,
    /// Whether this process has seen a filter answer.
    built: AtomicBool,
    /// When it last heard that there was none yet.
    unbuilt: Mutex<Option<Instant>>,
    hasher: IdHasher,
    found: RecentIds,
    /// Met are those that were missed, marked those that are only suspect.
    missed: RecentIds,
    lane: Lane,
    sample: Bucket,
}

/// What becomes of a request.
pub(crate) enum Ruling {
    Admit(Admission),
    Refuse(Proof),
    /// There is no room for it now.
    Busy {
        retry_after: Duration,
    },
}

/// A request that passes.
pub(crate) struct Admission {
    pub(crate) why: Why,
    /// Its permit for the lane, until it is answered.
    pub(crate) permit: Option<Permit>,
}

/// Why a request passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The record was found lately.
    Found,
    /// This process's copy of the filter holds it.
    Copied,
    /// The look-up said that it is present.
    Present,
    /// The answer is unknown.
    Unknown,
    /// A filter that settles lacks it, which proves nothing yet.
    Unsettled,
    /// It would be refused, but belongs to the sample that shows whether refusals are right.
    Sample(Proof),
    /// It would be refused in [`Mode::Enforce`].
    Shadow(Proof),
    /// There would be no room for it in [`Mode::Enforce`].
    ShadowBusy,
}

/// What is known of an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// What the look-up said.
    pub(crate) verdict: Verdict,
    /// Whether this process's copy of an earlier filter holds it, and it may pass by that.
    pub(crate) is_copied: bool,
    /// Whether it belongs to the sample of a guard outside of this one.
    pub(crate) is_sampled: bool,
}

/// What the table says of an id, before the lane is entered.
enum Row {
    Pass(Why),
    Refuse(Proof),
    Lane(Why),
    Shed,
}

impl Gate {
    pub(crate) fn new(policy: &Policy, fleet: Arc<SharedMode>) -> Self {
        Self {
            on_unknown: policy.on_unknown,
            mode: SharedMode::default(),
            fleet,
            built: AtomicBool::new(false),
            unbuilt: Mutex::default(),
            hasher: IdHasher::new(),
            found: RecentIds::new(policy.found, FOUND),
            missed: RecentIds::new(policy.missed, policy.null_ttl.mul_f64(MISSED_LIFE)),
            lane: Lane::new(policy.lane),
            sample: Bucket::empty(policy.audits),
        }
    }

    /// Returns the milder of this process's mode and the fleet's.
    pub(crate) fn mode(&self) -> Mode {
        self.mode.get().milder(self.fleet.get())
    }

    pub(crate) fn fleet_mode(&self) -> Mode {
        self.fleet.get()
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.set(mode);
    }

    pub(crate) fn lane(&self) -> LaneState {
        self.lane.state(Instant::now())
    }

    pub(crate) fn hash(&self, id: &Id) -> IdHash {
        self.hasher.hash(id)
    }

    /// Whether the first row decides: the record was found lately.
    pub(crate) fn is_found(&self, id: IdHash, now: Instant) -> bool {
        self.found.holds(id, now)
    }

    /// Whether an id may pass by a copy of a filter whose build began then: it is not missed, and nothing since has
    /// made it suspect.
    pub(crate) fn is_trusted(&self, id: IdHash, built: Instant, now: Instant) -> bool {
        !self.missed.noted_since(id, built, now) && !self.missed.holds(id, now)
    }

    /// The share of all ids that a copy of a filter whose build began then is not asked about, for want of room for
    /// suspects.
    pub(crate) fn silenced(&self, built: Instant) -> f64 {
        self.missed.forgotten_since(built)
    }

    /// Decides on a request for an id that passes by no row before, and about which this is known.
    pub(crate) fn rule(&self, id: IdHash, known: Known, now: Instant) -> Ruling {
        // Or `Off` meanwhile: the look-up was under way.
        let is_milder = self.mode() != Mode::Enforce;
        let (why, room) = match self.row(id, known, now) {
            Row::Pass(why) => return Ruling::admit(why),
            Row::Refuse(proof) if is_milder => return Ruling::admit(Why::Shadow(proof)),
            Row::Refuse(proof) => return Ruling::Refuse(proof),
            Row::Lane(why) => (why, self.enter_lane(1, now)),
            Row::Shed => (Why::Unknown, Err(RETRY.0)),
        };
        match room {
            Ok(permit) => Ruling::Admit(Admission { why, permit: Some(permit) }),
            Err(_) if is_milder => Ruling::admit(Why::ShadowBusy),
            Err(retry_after) => Ruling::Busy { retry_after },
        }
    }

    /// The table's other rows.
    fn row(&self, id: IdHash, known: Known, now: Instant) -> Row {
        let Known { verdict, is_copied, is_sampled } = known;
        self.note_built(verdict);
        match verdict {
            Verdict::Absent(proof) if is_sampled || self.sample.take(now).is_ok() => {
                Row::Pass(Why::Sample(proof))
            }
            Verdict::Absent(proof) => Row::Refuse(proof),
            Verdict::Present if self.missed.holds(id, now) => Row::Lane(Why::Present),
            Verdict::Present => Row::Pass(Why::Present),
            // What a filter that settles lacks is looked into, whatever holds it.
            Verdict::Unknown(doubt) if is_copied && doubt != Doubt::Settling => {
                Row::Pass(Why::Copied)
            }
            Verdict::Unknown(doubt) if is_copied => Row::Pass(Why::of(doubt)),
            Verdict::Unknown(doubt) => match self.on_unknown(doubt, now) {
                OnUnknown::Pass => Row::Pass(Why::of(doubt)),
                OnUnknown::PassLimited => Row::Lane(Why::of(doubt)),
                OnUnknown::Shed => Row::Shed,
            },
        }
    }

    /// The record was found. What was noted as found just now was taken from the missed with that.
    pub(crate) fn found(&self, id: IdHash, now: Instant) {
        if self.found.note(id, now) {
            self.missed.forget(id);
        }
    }

    /// The record was missing; says whether that is the first that is known of it.
    pub(crate) fn missing(&self, id: IdHash, now: Instant) -> bool {
        let first = !self.missed.knows(id);
        if self.found.holds(id, now) {
            self.found.forget(id);
            self.missed.mark(id, now);
        } else {
            self.missed.note(id, now);
        }
        first
    }

    /// Nothing was learnt of an id that passed by a copy: the look-up is asked about it from now on.
    pub(crate) fn doubted(&self, id: IdHash, now: Instant) {
        if !self.found.holds(id, now) {
            self.missed.mark(id, now);
        }
    }

    /// The request was given up or failed, or its answer tells nothing of the record.
    pub(crate) fn not_answered(&self, id: IdHash, now: Instant) {
        if !self.found.holds(id, now) {
            self.missed.note(id, now);
        }
    }

    /// The record is about to be created.
    pub(crate) fn inserted(&self, id: &Id) {
        self.missed.forget(self.hash(id));
    }

    /// The record was deleted.
    pub(crate) fn removed(&self, id: &Id, now: Instant) {
        let id = self.hash(id);
        self.found.forget(id);
        self.missed.mark(id, now);
    }

    /// Enters the lane with `ids` ids, or says when the client should come again.
    fn enter_lane(&self, ids: u32, now: Instant) -> Result<Permit, Duration> {
        self.lane.enter(ids, now).map_err(|wait| wait.clamp(RETRY.0, RETRY.1))
    }

    /// A first deploy knows nothing of any id, and the lane must not be its outage. A server that may
    /// evict the filter is no outage either, but a setting.
    fn on_unknown(&self, doubt: Doubt, now: Instant) -> OnUnknown {
        let unbuilt = !self.built.load(Ordering::Relaxed) && {
            let mut said = self.unbuilt.lock();
            if let Doubt::NoFilter | Doubt::ShardNotBuilt = doubt {
                *said = Some(now);
            }
            // A late answer is the same that other requests got. Of a Redis that is away nobody knows.
            said.is_some_and(|said| now.saturating_duration_since(said) < SAID)
        };
        // Nor must it be while the first shards are live, and the others are not.
        let is_new = unbuilt || doubt == Doubt::ShardNotBuilt;
        if is_new || doubt == Doubt::Eviction { OnUnknown::Pass } else { self.on_unknown }
    }

    fn note_built(&self, verdict: Verdict) {
        // A filter that settles answers, too.
        if !matches!(verdict, Verdict::Unknown(doubt) if doubt != Doubt::Settling) {
            self.built();
        }
    }

    /// This process has seen a filter.
    pub(crate) fn built(&self) {
        if !self.built.load(Ordering::Relaxed) {
            self.built.store(true, Ordering::Relaxed);
        }
    }
}

impl Why {
    /// Why a request passes of whose id nothing is proven.
    fn of(doubt: Doubt) -> Self {
        if doubt == Doubt::Settling { Self::Unsettled } else { Self::Unknown }
    }
}

impl Ruling {
    const fn admit(why: Why) -> Self {
        Self::Admit(Admission::unasked(why))
    }
}

impl Admission {
    /// A request about which nobody is asked.
    pub(crate) const fn unasked(why: Why) -> Self {
        Self { why, permit: None }
    }
}

#[cfg(test)]
mod tests;
