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
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
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
/// For how long it holds that there was no filter yet.
const SAID: Duration = Duration::from_secs(2);
/// So many refusals come before the first sample: whoever tries a guard by hand sees it refuse.
const UNSAMPLED: u32 = 10;
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
    /// Refusals, until the first may be a sample.
    refusals: AtomicU32,
}

#[derive(Debug)]
pub(crate) enum Ruling {
    /// It passes, with a permit for the lane, if it needs one, until it is answered.
    Admit {
        why: Why,
        permit: Option<Permit>,
    },
    Refuse(Proof),
    /// There is no room for it now, and an id that needs the lane has this verdict.
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
    row: Row,
}

/// The ids that a request asks for: mostly one.
pub(crate) type Subjects = SmallVec<[Subject; 1]>;

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
    /// There would be no room for it in [`Mode::Enforce`], as an id that needs the lane has this verdict.
    ShadowBusy(Verdict),
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
    pub(crate) fn new(settings: &Settings, fleet: Arc<SharedMode>) -> Self {
        Self {
            on_unknown: settings.on_unknown,
            mode: SharedMode::default(),
            fleet,
            built: AtomicBool::new(false),
            unbuilt: Mutex::default(),
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

    /// Decides on a request for ids of which this is known. How many more are listed that are no ids is `unread`: what they
    /// mean to the handler is not known, so with any the request is not refused as absent.
    pub(crate) fn rule(&self, ids: &mut [Subject], unread: usize, now: Instant) -> Ruling {
        if let [Subject { known: Known::Unasked(why), row, .. }] = ids {
            *row = Row::Pass(*why);
            return Ruling::Admit { why: *why, permit: None };
        }
        let mut rows = Tally::NONE;
        for of in &mut *ids {
            of.row = self.row(of.hash, of.known, now);
            rows.count(of.row);
        }
        let Tally { why, refused, proof, limited, verdict } = rows;
        let is_absent = refused > 0 && refused == ids.len() && unread == 0;
        let room = limited.and_then(|ids| match ids {
            0 => Ok(None),
            ids => self.lane.enter(ids, now).map(Some),
        });
        let room = room.map_err(|wait| wait.clamp(RETRY.0, RETRY.1));
        // Or `Off` meanwhile: the look-up was under way.
        let is_milder = self.mode() != Mode::Enforce;
        let why = match &room {
            Ok(_) if !is_absent => why,
            Ok(_) if is_milder => Why::Shadow(proof),
            Ok(_) => return Ruling::Refuse(proof),
            Err(_) if is_milder => Why::ShadowBusy(verdict),
            Err(retry_after) => return Ruling::Busy { verdict, retry_after: *retry_after },
        };
        if is_milder {
            for of in ids {
                of.row = match of.row {
                    Row::Refuse(proof) => Row::Pass(Why::Shadow(proof)),
                    Row::Lane(_, verdict) | Row::Shed(verdict) if room.is_err() => {
                        Row::Pass(Why::ShadowBusy(verdict))
                    }
                    row => row,
                };
            }
        }
        Ruling::Admit { why, permit: room.ok().flatten() }
    }

    fn row(&self, id: IdHash, known: Known, now: Instant) -> Row {
        let (verdict, is_copied, is_sampled) = match known {
            Known::Unasked(why) => return Row::Pass(why),
            Known::Asked { verdict, is_copied, is_sampled } => (verdict, is_copied, is_sampled),
        };
        // A filter that settles answers, too.
        if !matches!(verdict, Verdict::Unknown(doubt) if doubt != Doubt::Settling) {
            self.built();
        }
        match verdict {
            Verdict::Absent(proof) if is_sampled || self.samples(now) => {
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

    /// A first deploy knows nothing of any id, and the lane must not be its outage. A server that may
    /// evict the filter is no outage either, but a setting.
    fn on_unknown(&self, doubt: Doubt, now: Instant) -> OnUnknown {
        let unbuilt = !self.built.load(Ordering::Relaxed) && {
            let mut said = self.unbuilt.lock();
            if doubt == Doubt::NoFilter {
                *said = Some(now);
            }
            // A late answer is the same that other requests got. Of a Redis that is away nobody knows.
            said.is_some_and(|said| now.saturating_duration_since(said) < SAID)
        };
        // Nor must it be while the first shards are live, and the others are not.
        match doubt {
            Doubt::NoFilter | Doubt::Refused(Refusal::EVICTION) => OnUnknown::Pass,
            _ if unbuilt => OnUnknown::Pass,
            _ => self.on_unknown,
        }
    }

    /// A filter has answered.
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
            Self::Present | Self::Shadow(_) | Self::ShadowBusy(_) => 2,
            Self::Unknown | Self::Unsettled => 3,
            Self::Sample(_) => 4,
        }
    }
}

impl Subject {
    pub(crate) const fn new(
        id: Id,
        hash: IdHash,
        digest: Option<KeyedDigest>,
        known: Known,
    ) -> Self {
        Self { id, hash, digest, known, row: Row::Pass(Why::Present) }
    }

    /// Returns why an admitted request may read it, or what proves it absent.
    pub(crate) const fn reading(&self) -> Result<Why, Proof> {
        match self.row {
            Row::Pass(why) | Row::Lane(why, _) => Ok(why),
            Row::Shed(_) => Ok(Why::Unknown),
            Row::Refuse(proof) => Err(proof),
        }
    }
}

/// What the rows of a request's ids come to.
struct Tally {
    /// Why the request passes where there is room: what vouches least for one of them.
    why: Why,
    /// How many are absent.
    refused: usize,
    /// What proves that: a null, if any of them needed one.
    proof: Proof,
    /// How many need the lane; none of them can have it where unknown ones are shed.
    limited: Result<u32, Duration>,
    /// The verdict on one of those.
    verdict: Verdict,
}

impl Tally {
    const NONE: Self = Self {
        why: Why::Found,
        refused: 0,
        proof: Proof::Filter,
        limited: Ok(0),
        verdict: Verdict::Present,
    };

    fn count(&mut self, row: Row) {
        match row {
            Row::Pass(why) => self.weigh(why),
            Row::Refuse(proof) => {
                self.weigh(Why::Present);
                self.refused += 1;
                if proof == Proof::Null {
                    self.proof = proof;
                }
            }
            Row::Lane(why, verdict) => {
                self.weigh(why);
                self.limited = self.limited.map(|limited| limited + 1);
                self.verdict = verdict;
            }
            Row::Shed(verdict) => {
                self.limited = Err(RETRY.0);
                self.verdict = verdict;
            }
        }
    }

    fn weigh(&mut self, why: Why) {
        if why.weight() > self.why.weight() {
            self.why = why;
        }
    }
}

#[cfg(test)]
mod tests;
