//! What the guard counts.
//!
//! Every counter is made once, here, and each feeds both [`Stats`] and, with the feature `metrics`, the
//! recorder that is installed when the guard is built. Labels are few and fixed; no id is ever in one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::Remembered;
use crate::verdict::{Proof, Verdict};

/// The counters of one guard since it was built, all from this process.
///
/// They are read one after the other, so under load they may differ by requests that are under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests seen.
    pub requests: u64,
    /// Requests that were checked and passed.
    pub admitted: u64,
    /// Requests that passed unchecked: of another method, or about no id.
    pub unguarded: u64,
    /// Requests with an invalid id, refused or not.
    pub invalid: u64,
    /// Requests refused because their id is absent, by the filter or by a null.
    pub refused: u64,
    /// Checks that found the id possibly present. Those by [`check`](crate::BloomGuard::check) count
    /// as those of requests do, here and in the three numbers that follow.
    pub present: u64,
    /// Checks that found the id absent by the filter.
    pub absent_by_filter: u64,
    /// Checks that found the id absent by a null.
    pub absent_by_null: u64,
    /// Checks that found nothing out.
    pub unknown: u64,
    /// Requests that passed without a look-up, because the record was found lately in this process.
    pub admitted_found: u64,
    /// Requests with an unknown answer that passed.
    pub admitted_unknown: u64,
    /// Requests for which the lane had no room: answered 503, or let through in shadow mode.
    pub overloaded: u64,
    /// Refusals that were let through for a look, whether the record is missing indeed.
    pub audits: u64,
    /// Requests that would have been refused, if refusals were on.
    pub shadowed: u64,
    /// Records that were found although the guard holds them absent: each an alarm.
    pub false_negatives: u64,
    /// Such findings that were not looked into, as there were too many at a time.
    pub findings_dropped: u64,
    /// Requests with an invalid id that were let through for a look, and answered as if there were a
    /// record: each an alarm.
    pub invalid_answered: u64,
    /// Nulls stored after a 404.
    pub nulls_stored: u64,
    /// Nulls not stored after a 404, because a create of the id may have begun since, or because too
    /// much time had passed.
    pub nulls_withheld: u64,
    /// Nulls the store failed to store after a 404.
    pub nulls_failed: u64,
    /// Nulls not stored after a 404, as there were too many a second.
    pub nulls_limited: u64,
    /// Ids inserted and acknowledged.
    pub inserts: u64,
    /// Ids whose insert the store did not acknowledge.
    pub inserts_failed: u64,
    /// Removals remembered.
    pub removals: u64,
    /// Removals not remembered, because the id was created lately or there is no filter.
    pub removals_withheld: u64,
    /// Removals that the store failed to do.
    pub removals_failed: u64,
    /// Rebuilds of this process whose filter went live.
    pub rebuilds: u64,
    /// Rebuilds of this process that failed, other than for another that was under way.
    pub rebuilds_failed: u64,
}

/// The counters themselves.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// The name of the filter whose they are.
    pub(crate) filter: Arc<str>,
    requests: Count,
    pub(crate) admitted: Count,
    pub(crate) rebuilds: Count,
    pub(crate) rebuilds_failed: Count,
    unguarded: Count,
    invalid: Count,
    present: Count,
    absent_by_filter: Count,
    absent_by_null: Count,
    unknown: Count,
    nulls_stored: Count,
    nulls_withheld: Count,
    nulls_failed: Count,
    inserts: Count,
    inserts_failed: Count,
    removals: Count,
    removals_withheld: Count,
    removals_failed: Count,
    pub(crate) refused: Count,
    pub(crate) admitted_found: Count,
    pub(crate) admitted_unknown: Count,
    pub(crate) overloaded: Count,
    pub(crate) audits: Count,
    pub(crate) shadowed: Count,
    pub(crate) false_negatives: Count,
    pub(crate) findings_dropped: Count,
    pub(crate) invalid_answered: Count,
    pub(crate) nulls_limited: Count,
}

impl Metrics {
    /// Makes the counters of the filter with this name.
    pub(crate) fn new(filter: &str) -> Self {
        let count = |name, outcome| Count::new(filter, name, outcome);
        Self {
            filter: filter.into(),
            requests: Count::unpublished(),
            admitted: count("requests", "admitted"),
            rebuilds: count("rebuilds", "done"),
            rebuilds_failed: count("rebuilds", "failed"),
            unguarded: count("requests", "unguarded"),
            invalid: count("requests", "invalid"),
            present: count("checks", "present"),
            absent_by_filter: count("checks", "absent_by_filter"),
            absent_by_null: count("checks", "absent_by_null"),
            unknown: count("checks", "unknown"),
            nulls_stored: count("nulls", "stored"),
            nulls_withheld: count("nulls", "withheld"),
            nulls_failed: count("nulls", "failed"),
            inserts: count("inserts", "done"),
            inserts_failed: count("inserts", "failed"),
            removals: count("removals", "done"),
            removals_withheld: count("removals", "withheld"),
            removals_failed: count("removals", "failed"),
            refused: count("requests", "refused"),
            admitted_found: count("admissions", "found"),
            admitted_unknown: count("admissions", "unknown"),
            overloaded: count("requests", "overloaded"),
            audits: count("audits", "audited"),
            shadowed: count("audits", "shadowed"),
            false_negatives: count("audits", "false_negative"),
            findings_dropped: count("audits", "dropped"),
            invalid_answered: count("audits", "invalid_answered"),
            nulls_limited: count("nulls", "limited"),
        }
    }

    pub(crate) fn request(&self) {
        self.requests.add(1);
    }

    pub(crate) fn unguarded(&self) {
        self.unguarded.add(1);
    }

    pub(crate) fn invalid(&self) {
        self.invalid.add(1);
    }

    pub(crate) fn check(&self, verdict: Verdict) {
        match verdict {
            Verdict::Present => self.present.add(1),
            Verdict::Absent(Proof::Filter) => self.absent_by_filter.add(1),
            Verdict::Absent(Proof::Null) => self.absent_by_null.add(1),
            Verdict::Unknown(_) => self.unknown.add(1),
        }
    }

    pub(crate) fn null(&self, remembered: Remembered) {
        match remembered {
            Remembered::Stored => self.nulls_stored.add(1),
            Remembered::Created | Remembered::Late => self.nulls_withheld.add(1),
            Remembered::Failed => self.nulls_failed.add(1),
        }
    }

    pub(crate) fn inserted(&self, ids: u64, done: bool) {
        if done { self.inserts.add(ids) } else { self.inserts_failed.add(ids) }
    }

    pub(crate) fn removed(&self, remembered: Remembered) {
        match remembered {
            Remembered::Stored => self.removals.add(1),
            Remembered::Created | Remembered::Late => self.removals_withheld.add(1),
            Remembered::Failed => self.removals_failed.add(1),
        }
    }

    /// Returns what has been counted so far.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            requests: self.requests.get(),
            admitted: self.admitted.get(),
            rebuilds: self.rebuilds.get(),
            rebuilds_failed: self.rebuilds_failed.get(),
            unguarded: self.unguarded.get(),
            invalid: self.invalid.get(),
            present: self.present.get(),
            absent_by_filter: self.absent_by_filter.get(),
            absent_by_null: self.absent_by_null.get(),
            unknown: self.unknown.get(),
            nulls_stored: self.nulls_stored.get(),
            nulls_withheld: self.nulls_withheld.get(),
            nulls_failed: self.nulls_failed.get(),
            inserts: self.inserts.get(),
            inserts_failed: self.inserts_failed.get(),
            removals: self.removals.get(),
            removals_withheld: self.removals_withheld.get(),
            removals_failed: self.removals_failed.get(),
            refused: self.refused.get(),
            admitted_found: self.admitted_found.get(),
            admitted_unknown: self.admitted_unknown.get(),
            overloaded: self.overloaded.get(),
            audits: self.audits.get(),
            shadowed: self.shadowed.get(),
            false_negatives: self.false_negatives.get(),
            findings_dropped: self.findings_dropped.get(),
            invalid_answered: self.invalid_answered.get(),
            nulls_limited: self.nulls_limited.get(),
        }
    }
}

/// One counter: `bloom_guard_<name>_total{filter, outcome}`.
pub(crate) struct Count {
    total: AtomicU64,
    #[cfg(feature = "metrics")]
    published: Option<metrics::Counter>,
}

impl Count {
    #[cfg_attr(
        not(feature = "metrics"),
        expect(unused_variables, reason = "only the recorder wants names")
    )]
    fn new(filter: &str, name: &str, outcome: &'static str) -> Self {
        Self {
            total: AtomicU64::new(0),
            #[cfg(feature = "metrics")]
            published: Some(metrics::counter!(
                format!("bloom_guard_{name}_total"),
                "filter" => filter.to_owned(),
                "outcome" => outcome
            )),
        }
    }

    /// For what is the sum of others.
    fn unpublished() -> Self {
        Self {
            total: AtomicU64::new(0),
            #[cfg(feature = "metrics")]
            published: None,
        }
    }

    pub(crate) fn add(&self, n: u64) {
        self.total.fetch_add(n, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        if let Some(published) = &self.published {
            published.increment(n);
        }
    }

    fn get(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}
