//! The table: which requests pass, and what is remembered of their answers.
//!
//! Each id of a request has its row, and the request is decided as one:
//!
//! | the ids | the request |
//! |---|---|
//! | all absent | 404 |
//! | any missed lately or unknown | enters the lane with as many as need it, or is answered 503 |
//! | otherwise | passes |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
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
#[derive(Debug)]
pub(crate) enum Ruling {
    Admit(Admission),
    Refuse(Proof),
    /// There is no room for it now.
    Busy {
        verdict: Verdict,
        retry_after: Duration,
    },
}

/// A request that passes.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Why it passes.
    pub(crate) why: Why,
    /// The verdict on an id that needs the lane, if there is one.
    pub(crate) verdict: Verdict,
    /// Of each id, why it may be read, or what proves it absent.
    pub(crate) ids: Readings,
    /// Its permit for the lane, until it is answered.
    pub(crate) permit: Option<Permit>,
}

/// Why each id of a request may be read, or what proves it absent.
pub(crate) type Readings = SmallVec<[Result<Why, Proof>; 1]>;

/// Why a request passes, or why an id may be read.
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
pub(crate) enum Known {
    /// It passes, and nobody was asked.
    Unasked(Why),
    /// The look-up is asked.
    Asked {
        /// What it said.
        verdict: Verdict,
        /// Whether this process's copy of an earlier filter holds it, and it may pass by that.
        is_copied: bool,
        /// Whether it belongs to the sample of a guard outside of this one.
        is_sampled: bool,
    },
}

/// What the table says of an id, before the lane is entered.
#[derive(Clone, Copy)]
enum Row {
    Pass(Why),
    Refuse(Proof),
    Lane(Why, Verdict),
    Shed(Verdict),
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

    /// Decides on a request for ids of which this is known. How many more are listed that are no ids is `unread`: what they
    /// mean to the handler is not known, so with any the request is not refused as absent.
    pub(crate) fn rule(
        &self,
        ids: impl Iterator<Item = (IdHash, Known)>,
        unread: usize,
        now: Instant,
    ) -> Ruling {
        // Or `Off` meanwhile: the look-up was under way.
        let is_milder = self.mode() != Mode::Enforce;
        let rows: SmallVec<[Row; 1]> = ids.map(|(id, known)| self.row(id, known, now)).collect();
        let held_up = rows.iter().rev().find_map(|row| match row {
            Row::Lane(_, verdict) | Row::Shed(verdict) => Some(*verdict),
            Row::Pass(_) | Row::Refuse(_) => None,
        });
        let verdict = held_up.unwrap_or(Verdict::Present);
        let room = self.room(&rows, now);
        let why = match (proof(&rows).filter(|_| unread == 0), &room) {
            (Some(proof), _) if is_milder => Why::Shadow(proof),
            (Some(proof), _) => return Ruling::Refuse(proof),
            (None, Ok(_)) => why(&rows),
            (None, Err(_)) if is_milder => Why::ShadowBusy,
            (None, Err(retry_after)) => {
                return Ruling::Busy { verdict, retry_after: *retry_after };
            }
        };
        let reading = |row: &Row| match *row {
            Row::Lane(..) | Row::Shed(_) if room.is_err() => Ok(Why::ShadowBusy),
            Row::Refuse(proof) if is_milder => Ok(Why::Shadow(proof)),
            row => row.why(),
        };
        let ids = rows.iter().map(reading).collect();
        Ruling::Admit(Admission { why, verdict, ids, permit: room.ok().flatten() })
    }

    /// The row of an id.
    fn row(&self, id: IdHash, known: Known, now: Instant) -> Row {
        let (verdict, is_copied, is_sampled) = match known {
            Known::Unasked(why) => return Row::Pass(why),
            Known::Asked { verdict, is_copied, is_sampled } => (verdict, is_copied, is_sampled),
        };
        self.note_built(verdict);
        match verdict {
            Verdict::Absent(proof) if is_sampled || self.sample.take(now).is_ok() => {
                Row::Pass(Why::Sample(proof))
            }
            Verdict::Absent(proof) => Row::Refuse(proof),
            Verdict::Present if self.missed.holds(id, now) => Row::Lane(Why::Present, verdict),
            Verdict::Present => Row::Pass(Why::Present),
            // What a filter that settles lacks is looked into, whatever holds it.
            Verdict::Unknown(doubt) if is_copied && doubt != Doubt::Settling => {
                Row::Pass(Why::Copied)
            }
            Verdict::Unknown(doubt) if is_copied => Row::Pass(Why::of(doubt)),
            Verdict::Unknown(doubt) => match self.on_unknown(doubt, now) {
                OnUnknown::Pass => Row::Pass(Why::of(doubt)),
                OnUnknown::PassLimited => Row::Lane(Why::of(doubt), verdict),
                OnUnknown::Shed => Row::Shed(verdict),
            },
        }
    }

    /// Enters the lane with the ids that need it, or says when the client should come again. None can have it where unknown
    /// ones are shed.
    fn room(&self, rows: &[Row], now: Instant) -> Result<Option<Permit>, Duration> {
        if rows.iter().any(|row| matches!(row, Row::Shed(_))) {
            return Err(RETRY.0);
        }
        match rows.iter().filter(|row| matches!(row, Row::Lane(..))).count() {
            0 => Ok(None),
            ids => {
                let entered = self.lane.enter(ids as u32, now).map(Some);
                entered.map_err(|wait| wait.clamp(RETRY.0, RETRY.1))
            }
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

    /// Returns how little vouches for it.
    const fn weight(&self) -> u8 {
        match self {
            Self::Found => 0,
            Self::Copied => 1,
            Self::Present | Self::Shadow(_) | Self::ShadowBusy => 2,
            Self::Unknown | Self::Unsettled => 3,
            Self::Sample(_) => 4,
        }
    }
}

impl Known {
    /// Returns what is known until the look-up has answered.
    pub(crate) const fn unanswered(is_copied: bool) -> Self {
        Self::Asked { verdict: Verdict::Unknown(Doubt::Odd), is_copied, is_sampled: false }
    }
}

impl Row {
    /// Returns why an id may be read where there is room, or what proves it absent.
    const fn why(self) -> Result<Why, Proof> {
        match self {
            Self::Pass(why) | Self::Lane(why, _) => Ok(why),
            Self::Shed(_) => Ok(Why::Unknown),
            Self::Refuse(proof) => Err(proof),
        }
    }
}

/// What proves all ids absent, if they are: a null, if any of them needed one.
fn proof(rows: &[Row]) -> Option<Proof> {
    let proofs = rows.iter().map(|row| row.why().err());
    let all = |all: Option<Proof>, proof: Option<Proof>| {
        all.zip(proof).map(|(all, proof)| if all == Proof::Null { all } else { proof })
    };
    proofs.reduce(all).flatten()
}

/// Why a request passes, by its ids: what vouches least for one of them.
fn why(rows: &[Row]) -> Why {
    let whys = rows.iter().map(|row| row.why().unwrap_or(Why::Present));
    whys.max_by_key(Why::weight).unwrap_or(Why::Present)
}

#[cfg(test)]
mod tests;
