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
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::bucket::Bucket;
use super::lane::{Lane, LaneState, Permit};
use super::recent::{IdHash, IdHasher, RecentIds};
use crate::id::{Id, KeyedDigest};
use crate::mode::{Mode, SharedMode};
use crate::refusal::Refusal;
use crate::settings::{OnUnknown, Settings};
use crate::verdict::{Doubt, Proof, Verdict};

/// Ids remembered as found at the most, whatever the capacity: 16 MB.
const MOST_FOUND: u64 = 1_000_000;
/// For how long a record counts as found lately.
const FOUND: Duration = Duration::from_secs(10 * 60);
/// For how many lives of a null an id counts as missed lately: for longer than any null lasts, which is
/// 1.1 of them at the most, and for less than two.
const MISSED_LIFE: f64 = 1.5;
/// Refusals before the first sample: whoever tries a guard by hand sees it refuse.
const UNSAMPLED: u32 = 10;
/// The shortest and the longest time a client is told to stay away.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What decides on requests, and what it remembers to do so.
pub(crate) struct Gate {
    on_unknown: OnUnknown,
    /// This process's mode, and the fleet's.
    mode: SharedMode,
    fleet: Arc<SharedMode>,
    hasher: IdHasher,
    found: RecentIds,
    /// A missed id is noted in it, one that is only suspect is marked.
    missed: RecentIds,
    lane: Lane,
    sample: Bucket,
    /// Refusals, until the first may be a sample.
    refusals: AtomicU32,
}

#[derive(Debug)]
pub(crate) enum Ruling {
    Admit {
        why: Why,
        /// The request's place in the lane, if it needs one, until it is answered.
        permit: Option<Permit>,
        /// The verdict on an id for which the lane would have had no room in [`Mode::Enforce`].
        no_room: Option<Verdict>,
    },
    Refuse(Proof),
    /// The lane has no room for an id with this verdict.
    Busy {
        verdict: Verdict,
        retry_after: Duration,
    },
}

pub(crate) struct Subject {
    pub(crate) id: Id,
    pub(crate) hash: IdHash,
    /// Its digest, if that was made.
    pub(crate) digest: Option<KeyedDigest>,
    pub(crate) known: Known,
    /// Why the handler of an admitted request may read the id; none if it is absent.
    pub(crate) reading: Option<Why>,
}

/// The ids that a request asks for: mostly one.
pub(crate) type Subjects = SmallVec<[Subject; 1]>;

/// Why a request passes, or why an id may be read. A list passes for the greatest reason among its ids, which is the one that
/// vouches least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    Sample,
    /// It would be refused in [`Mode::Enforce`].
    Shadow,
}

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
    pub(crate) fn new(settings: &Settings, fleet: Arc<SharedMode>) -> Self {
        Self {
            on_unknown: settings.on_unknown,
            mode: SharedMode::default(),
            fleet,
            hasher: IdHasher::new(),
            found: RecentIds::new(settings.sizing.capacity.min(MOST_FOUND), FOUND),
            missed: RecentIds::new(settings.missed, settings.null_ttl.mul_f64(MISSED_LIFE)),
            lane: Lane::new(settings.lane_concurrency, settings.lane_per_second),
            sample: Bucket::empty(settings.audits),
            refusals: AtomicU32::new(0),
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

    /// Whether other requests for an id may wait for a request's answer: it will pass, and nothing is known of its record here.
    pub(crate) fn leads(&self, of: &Subject, now: Instant) -> bool {
        let passes = match of.known {
            Known::Unasked(why) => why != Why::Found,
            Known::Asked { verdict, .. } => !matches!(verdict, Verdict::Absent(_)),
        };
        passes && self.mode() == Mode::Enforce && !self.missed.holds(of.hash, now)
    }

    /// Decides on a request for ids of which this is known. `unread` counts listed texts that are no ids: the handler may read
    /// them otherwise, so with any the request is not refused as absent.
    pub(crate) fn rule(&self, ids: &mut [Subject], unread: usize, now: Instant) -> Ruling {
        if let [Subject { known: Known::Unasked(why), .. }] = ids {
            return Ruling::Admit { why: *why, permit: None, no_room: None };
        }
        let mut why = Why::Found;
        let mut proof = Proof::Filter;
        let mut limited = 0;
        let mut is_shed = false;
        let mut unsure = Verdict::Present;
        for of in &mut *ids {
            of.reading = match self.row(of.hash, of.known, now) {
                Row::Pass(why) => Some(why),
                Row::Refuse(by) => {
                    if by == Proof::Null {
                        proof = by;
                    }
                    None
                }
                Row::Lane(why, verdict) => {
                    limited += 1;
                    unsure = verdict;
                    Some(why)
                }
                Row::Shed(verdict) => {
                    is_shed = true;
                    unsure = verdict;
                    Some(Why::Unknown)
                }
            };
            why = why.max(of.reading.unwrap_or(Why::Present));
        }
        let is_absent = unread == 0 && ids.iter().all(|of| of.reading.is_none());
        let room = match limited {
            _ if is_shed => Err(RETRY.0),
            0 => Ok(None),
            limited => self.lane.enter(limited, now).map(Some),
        };
        // `Off` is possible here, too: it may have been set during the look-up.
        if self.mode() != Mode::Enforce {
            for of in ids {
                of.reading.get_or_insert(Why::Shadow);
            }
            let why = if is_absent { Why::Shadow } else { why };
            let no_room = room.is_err().then_some(unsure);
            return Ruling::Admit { why, permit: room.ok().flatten(), no_room };
        }
        match room {
            Ok(_) if is_absent => Ruling::Refuse(proof),
            Ok(permit) => Ruling::Admit { why, permit, no_room: None },
            Err(wait) => {
                Ruling::Busy { verdict: unsure, retry_after: wait.clamp(RETRY.0, RETRY.1) }
            }
        }
    }

    fn row(&self, id: IdHash, known: Known, now: Instant) -> Row {
        let (verdict, is_copied) = match known {
            Known::Unasked(why) => return Row::Pass(why),
            Known::Asked { verdict, is_copied } => (verdict, is_copied),
        };
        match verdict {
            Verdict::Absent(_) if self.samples(now) => Row::Pass(Why::Sample),
            Verdict::Absent(proof) => Row::Refuse(proof),
            Verdict::Present if self.missed.holds(id, now) => Row::Lane(Why::Present, verdict),
            Verdict::Present => Row::Pass(Why::Present),
            // What a filter that settles lacks is looked into, also if an earlier filter's copy holds it.
            Verdict::Unknown(Doubt::Settling) if is_copied => Row::Pass(Why::Unsettled),
            Verdict::Unknown(_) if is_copied => Row::Pass(Why::Copied),
            // A first deploy knows no ids, nor does a new shard, and the lane must not be its outage. A server that may evict the
            // filter is a setting, and no outage either.
            Verdict::Unknown(Doubt::NoFilter | Doubt::Refused(Refusal::EVICTION)) => {
                Row::Pass(Why::Unknown)
            }
            Verdict::Unknown(doubt) => {
                let why = if doubt == Doubt::Settling { Why::Unsettled } else { Why::Unknown };
                match self.on_unknown {
                    OnUnknown::Pass => Row::Pass(why),
                    OnUnknown::PassLimited => Row::Lane(why, verdict),
                    OnUnknown::Shed => Row::Shed(verdict),
                }
            }
        }
    }

    /// Whether a refusal passes as the sample.
    fn samples(&self, now: Instant) -> bool {
        if self.refusals.load(Ordering::Relaxed) < UNSAMPLED {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.sample.take(now).is_ok()
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

    pub(crate) fn inserted(&self, id: &Id) {
        self.missed.forget(self.hash(id));
    }

    pub(crate) fn removed(&self, id: &Id, now: Instant) {
        let id = self.hash(id);
        self.found.forget(id);
        self.missed.mark(id, now);
    }
}

impl Subject {
    pub(crate) const fn new(
        id: Id,
        hash: IdHash,
        digest: Option<KeyedDigest>,
        known: Known,
    ) -> Self {
        let reading = match known {
            Known::Unasked(why) => Some(why),
            Known::Asked { .. } => None,
        };
        Self { id, hash, digest, known, reading }
    }
}

#[cfg(test)]
mod tests;
