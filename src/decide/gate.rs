//! The table of the guide's page `requests`: which requests pass, and what is remembered of their answers.
//!
//! Each id of a list has its row. A list is answered 404 if all its ids are absent, and otherwise enters the lane with the ids that
//! need it, or passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::bucket::Bucket;
use super::lane::{Lane, Permit};
use super::recent::{IdHash, RecentIds};
use crate::id::{Id, KeyedDigest};
use crate::mode::{Mode, SharedMode};
use crate::random;
use crate::refusal::Refusal;
use crate::settings::{OnUnknown, Settings};
use crate::verdict::{Doubt, Proof, Verdict};

/// The most ids that are remembered as found, whatever the capacity: 16 MB.
const MOST_FOUND: u64 = 1_000_000;
/// For how long a record counts as found lately.
const FOUND: Duration = Duration::from_secs(10 * 60);
/// For how many lives of a null an id counts as missed lately. A null lasts for up to 1.1 lives.
const MISSED_LIFE: f64 = 1.5;
/// Refusals before the first sample: whoever tries a guard by hand sees it refuse.
const UNSAMPLED: u32 = 10;

pub(crate) struct Gate {
    on_unknown: OnUnknown,
    pub(crate) own_mode: SharedMode,
    pub(crate) fleet_mode: Arc<SharedMode>,
    /// With a key of this process.
    hasher: SipHasher13,
    pub(crate) found: RecentIds,
    /// A missed id is noted in it, one that is only suspect is marked.
    pub(crate) missed: RecentIds,
    pub(crate) lane: Lane,
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
    Busy(Verdict),
}

pub(crate) struct Subject {
    pub(crate) id: Id,
    pub(crate) hash: IdHash,
    pub(crate) digest: Option<KeyedDigest>,
    /// What the look-up said; present where none is needed.
    pub(crate) verdict: Verdict,
    /// Whether this process's copy of an earlier filter holds it, and it may pass by that.
    pub(crate) is_copied: bool,
    /// Why the handler may read it: known at once where no look-up is needed, else decided by [`Gate::rule`]. None if it is absent.
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

/// What the table says of an id, before the lane is entered.
enum Row {
    Pass(Why),
    Refuse(Proof),
    Lane(Why),
    Shed,
}

impl Gate {
    pub(crate) fn new(settings: &Settings, fleet_mode: Arc<SharedMode>) -> Self {
        Self {
            on_unknown: settings.on_unknown,
            own_mode: SharedMode::default(),
            fleet_mode,
            hasher: SipHasher13::new_with_keys(random::scatter(), random::scatter()),
            found: RecentIds::new(settings.sizing.capacity.min(MOST_FOUND), FOUND),
            missed: RecentIds::new(settings.missed, settings.nulls.ttl.mul_f64(MISSED_LIFE)),
            lane: Lane::new(settings.lane_concurrency, settings.lane_per_second),
            sample: Bucket::empty(settings.audits),
            refusals: AtomicU32::new(0),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.own_mode.get().milder(self.fleet_mode.get())
    }

    pub(crate) fn hash(&self, id: &Id) -> IdHash {
        IdHash::new(id, self.hasher)
    }

    /// Whether an id may pass by a copy of a filter whose build began at `built`: it is not missed, and not suspect since.
    pub(crate) fn is_trusted(&self, id: IdHash, built: Instant, now: Instant) -> bool {
        !self.missed.noted_since(id, built, now) && !self.missed.holds(id, now)
    }

    /// Decides on a request. `unread` counts listed texts that are no ids: the handler may read them otherwise, so with any the request
    /// is not refused as absent.
    pub(crate) fn rule(&self, ids: &mut [Subject], unread: usize, now: Instant) -> Ruling {
        if let [Subject { reading: Some(why), .. }] = ids {
            return Ruling::Admit { why: *why, permit: None, no_room: None };
        }
        let mut why = Why::Found;
        let mut proof = Proof::Filter;
        let mut limited = 0;
        let mut is_shed = false;
        let mut unsure = Verdict::Present;
        for of in &mut *ids {
            if of.reading.is_none() {
                of.reading = match self.row(of, now) {
                    Row::Pass(why) => Some(why),
                    Row::Refuse(by) => {
                        if by == Proof::Null {
                            proof = by;
                        }
                        None
                    }
                    Row::Lane(why) => {
                        limited += 1;
                        unsure = of.verdict;
                        Some(why)
                    }
                    Row::Shed => {
                        is_shed = true;
                        unsure = of.verdict;
                        Some(Why::Unknown)
                    }
                };
            }
            why = why.max(of.reading.unwrap_or(Why::Present));
        }
        let is_absent = unread == 0 && ids.iter().all(|of| of.reading.is_none());
        let permit = if is_shed || limited == 0 { None } else { self.lane.enter(limited, now) };
        let has_room = !is_shed && (limited == 0 || permit.is_some());
        // `Off` is possible here, too: it may have been set during the look-up.
        if self.mode() != Mode::Enforce {
            for of in ids {
                of.reading.get_or_insert(Why::Shadow);
            }
            let why = if is_absent { Why::Shadow } else { why };
            return Ruling::Admit { why, permit, no_room: (!has_room).then_some(unsure) };
        }
        if !has_room {
            Ruling::Busy(unsure)
        } else if is_absent {
            Ruling::Refuse(proof)
        } else {
            Ruling::Admit { why, permit, no_room: None }
        }
    }

    fn row(&self, of: &Subject, now: Instant) -> Row {
        let Subject { hash, verdict, is_copied, .. } = *of;
        match verdict {
            Verdict::Absent(_) if self.samples(now) => Row::Pass(Why::Sample),
            Verdict::Absent(proof) => Row::Refuse(proof),
            Verdict::Present if self.missed.holds(hash, now) => Row::Lane(Why::Present),
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
                    OnUnknown::PassLimited => Row::Lane(why),
                    OnUnknown::Shed => Row::Shed,
                }
            }
        }
    }

    fn samples(&self, now: Instant) -> bool {
        if self.refusals.load(Ordering::Relaxed) < UNSAMPLED {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.sample.take(now)
    }

    pub(crate) fn found(&self, id: IdHash, now: Instant) {
        if self.found.note(id, now) {
            self.missed.forget(id);
        }
    }

    /// The record was missing. Returns whether nothing was known of the id before.
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

    /// The answer to a request that passed by a copy says nothing of the record: the id is looked up from now on.
    pub(crate) fn doubted(&self, id: IdHash, now: Instant) {
        if !self.found.holds(id, now) {
            self.missed.mark(id, now);
        }
    }

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
    pub(crate) const fn new(id: Id, hash: IdHash) -> Self {
        let verdict = Verdict::Unknown(Doubt::Timeout);
        Self { id, hash, digest: None, verdict, is_copied: false, reading: None }
    }

    pub(crate) fn unasked(self, why: Why) -> Self {
        Self { verdict: Verdict::Present, reading: Some(why), ..self }
    }
}

#[cfg(test)]
mod tests;
