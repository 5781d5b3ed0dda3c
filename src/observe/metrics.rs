//! What the guard counts. Each counter feeds [`Stats`] and, with the feature `metrics`, the recorder that is installed when the guard
//! is built. Labels are few and fixed; no id is in one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::activity::Activity;
use crate::error::{RebuildError, StoreError};
use crate::id::Id;
use crate::store::{Removed, Store};
use crate::verdict::{Doubt, Proof, Verdict};

/// Names each counter once: its field, and its family and outcome for the recorder. The sum of others has none.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $published:expr;)*) => {
        /// The counters of one guard since it was built, all from this process.
        ///
        /// They are read one after the other, so under load they may differ by requests that are under way.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $field: u64,)*
        }

        pub(crate) struct Metrics {
            pub(crate) filter: Arc<str>,
            pub(crate) checks: Activity<Doubt>,
            pub(super) inserting: Activity<StoreError>,
            pub(crate) rebuilding: Activity<Arc<RebuildError>>,
            /// Looks whether a rebuild is due.
            pub(crate) surveys: Activity<StoreError>,
            $(pub(crate) $field: Count,)*
        }

        impl Metrics {
            pub(crate) fn new(filter: &str) -> Self {
                #[cfg(feature = "metrics")]
                describe_families();
                Self {
                    filter: filter.into(),
                    checks: Activity::new(),
                    inserting: Activity::new(),
                    rebuilding: Activity::new(),
                    surveys: Activity::new(),
                    $($field: Count::new(filter, $published),)*
                }
            }

            pub(crate) fn stats(&self) -> Stats {
                Stats { $($field: self.$field.get(),)* }
            }
        }
    };
}

counters! {
    /// Requests seen.
    requests = None;
    /// Requests that were checked and passed.
    admitted = Some(("requests", "admitted"));
    /// Requests that passed unchecked: of another method, or about no id.
    unguarded = Some(("requests", "unguarded"));
    /// Requests that passed unchecked, and whose path would name an id, valid or not, without its final slash, with single slashes,
    /// or with `%2F` decoded. A layer that rewrites it so [goes outside](crate::guide::getting_started#where-the-layer-goes) of the guard.
    unguarded_path = Some(("requests", "unguarded_path"));
    /// Requests with an invalid id, refused or not.
    invalid = Some(("requests", "invalid"));
    /// Requests refused because their id is absent, by the filter or by a null.
    refused = Some(("requests", "refused"));
    /// Checks that found the id possibly present. Those by [`check`](crate::BloomGuard::check) count
    /// as those of requests do, here and in the three numbers that follow.
    present = Some(("checks", "present"));
    /// Checks that found the id absent by the filter.
    absent_by_filter = Some(("checks", "absent_by_filter"));
    /// Checks that found the id absent by a null.
    absent_by_null = Some(("checks", "absent_by_null"));
    /// Checks that found nothing out.
    unknown = Some(("checks", "unknown"));
    /// Requests that passed without a look-up, because the record was found lately in this process.
    admitted_found = Some(("admissions", "found"));
    /// Requests that passed because this process's copy of the filter holds the id: without a look-up, or after one whose
    /// answer was unknown.
    admitted_copied = Some(("admissions", "copied"));
    /// Requests that passed as present, or by the copy, and were answered 404, for each id once as long as the process
    /// remembers that: its record was deleted, or it is a false positive of the filter. Of a list, each id that the handler did
    /// not find.
    present_missing = Some(("admissions", "present_missing"));
    /// Requests with an unknown answer that passed.
    admitted_unknown = Some(("admissions", "unknown"));
    /// Requests for which the lane had no room: answered 503, or let through in shadow mode.
    overloaded = Some(("requests", "overloaded"));
    /// Refusals that were let through for a look, whether the record is missing indeed.
    audits = Some(("audits", "audited"));
    /// Requests that would have been refused, if refusals were on.
    shadowed = Some(("audits", "shadowed"));
    /// Records that were found although the guard holds them absent: each an alarm.
    false_negatives = Some(("audits", "false_negative"));
    /// Such findings that were not looked into, or that [`next_finding`](crate::BloomGuard::next_finding) does not tell, as too many waited.
    findings_dropped = Some(("audits", "dropped"));
    /// Records that were found although a filter that settles lacks them. Each was inserted. They were created by a process
    /// that does not insert.
    found_unsettled = Some(("audits", "unsettled"));
    /// Requests with an invalid id that were let through for a look, and answered as if there were a
    /// record: each an alarm.
    invalid_answered = Some(("audits", "invalid_answered"));
    /// Nulls stored after a 404.
    nulls_stored = Some(("nulls", "stored"));
    /// Nulls not stored after a 404, because a create of the id may have begun since, or because too
    /// much time had passed.
    nulls_withheld = Some(("nulls", "withheld"));
    /// Nulls the store failed to store after a 404.
    nulls_failed = Some(("nulls", "failed"));
    /// Nulls not stored after a 404, as there were too many a second.
    nulls_limited = Some(("nulls", "limited"));
    /// Ids inserted and acknowledged.
    inserts = Some(("inserts", "done"));
    /// Ids whose insert the store did not acknowledge.
    inserts_failed = Some(("inserts", "failed"));
    /// Removals remembered.
    removals = Some(("removals", "done"));
    /// Removals not remembered, because the id was created lately or there is no filter.
    removals_withheld = Some(("removals", "withheld"));
    /// Removals that the store failed to do.
    removals_failed = Some(("removals", "failed"));
    /// Rebuilds of this process whose filter went live.
    rebuilds = Some(("rebuilds", "done"));
    /// Rebuilds of this process that failed, other than for another that was under way.
    rebuilds_failed = Some(("rebuilds", "failed"));
}

impl Stats {
    /// Returns the share of false positives among the requests for ids that do not exist.
    pub(crate) fn false_positive_rate(&self) -> Option<f64> {
        let asked = self.present_missing + self.absent_by_filter;
        (asked > 0).then(|| self.present_missing as f64 / asked as f64)
    }
}

impl Metrics {
    /// Counts the answer to a check of a request, which began at `begun`.
    pub(crate) fn check(&self, verdict: Verdict, begun: Instant) {
        let count = match verdict {
            Verdict::Present => &self.present,
            Verdict::Absent(Proof::Filter) => &self.absent_by_filter,
            Verdict::Absent(Proof::Null) => &self.absent_by_null,
            Verdict::Unknown(_) => &self.unknown,
        };
        count.add_timed(1, begun);
        self.checked(verdict, begun);
    }

    /// Checks an id of the guard's own, as a request would have its id checked. Whether there is such an id is no matter.
    pub(crate) async fn probe(&self, store: &Store) {
        if let Ok(id) = Id::display("bloom-guard") {
            let verdict = store.look_up(&id).await.verdict;
            self.checked(verdict, Instant::now());
        }
    }

    /// Notes the answer to any check, also to one of the guard's own.
    fn checked(&self, verdict: Verdict, at: Instant) {
        match verdict {
            // A filter that settles answers.
            Verdict::Present | Verdict::Absent(_) | Verdict::Unknown(Doubt::Settling) => {
                self.checks.succeeded(at);
            }
            Verdict::Unknown(doubt) => self.checks.failed(doubt, at),
        }
    }

    pub(crate) fn insert(&self, ids: u64, outcome: Result<(), &StoreError>, begun: Instant) {
        let count = if outcome.is_ok() { &self.inserts } else { &self.inserts_failed };
        count.add_timed(ids, begun);
        self.inserting.ended(outcome.map_err(Clone::clone));
    }

    /// Counts a rebuild, unless it ended because another was under way.
    pub(crate) fn rebuild(&self, outcome: Result<(), &Arc<RebuildError>>, begun: Instant) {
        let count = if outcome.is_ok() { &self.rebuilds } else { &self.rebuilds_failed };
        count.add_timed(1, begun);
        self.rebuilding.ended(outcome.map_err(Arc::clone));
    }

    pub(crate) fn null(&self, stored: Option<Removed>) {
        count(stored, [&self.nulls_stored, &self.nulls_withheld, &self.nulls_failed]);
    }

    pub(crate) fn removed(&self, stored: Option<Removed>) {
        count(stored, [&self.removals, &self.removals_withheld, &self.removals_failed]);
    }
}

fn count(null: Option<Removed>, [stored, withheld, failed]: [&Count; 3]) {
    match null {
        Some(Removed::Remembered) => stored.add(1),
        Some(Removed::Withheld) => withheld.add(1),
        None => failed.add(1),
    }
}

/// Families whose work is timed: with what is timed, in words.
#[cfg(feature = "metrics")]
const TIMED: [(&str, &str); 3] = [
    ("checks", "How long a look-up of an id takes"),
    ("inserts", "How long an insert takes, of one id or many"),
    ("rebuilds", "How long a rebuild of this process takes"),
];

#[cfg(feature = "metrics")]
fn is_timed(family: &str) -> bool {
    TIMED.iter().any(|(timed, _)| *timed == family)
}

#[cfg(feature = "metrics")]
fn seconds_of(family: &str) -> String {
    format!("bloom_guard_{}_seconds", family.trim_end_matches('s'))
}

#[cfg(feature = "metrics")]
fn describe_families() {
    for (family, help) in [
        ("requests", "Requests, by what became of them"),
        ("checks", "Look-ups of ids for requests, by what they found"),
        ("admissions", "Requests that passed without proof, or as present and found nothing"),
        ("audits", "Refusals that were let through for a look, and what they showed"),
        ("nulls", "404s that were to be remembered"),
        ("inserts", "Ids inserted"),
        ("removals", "Removals that were to be remembered"),
        ("rebuilds", "Rebuilds of this process"),
    ] {
        metrics::describe_counter!(
            format!("bloom_guard_{family}_total"),
            metrics::Unit::Count,
            help
        );
    }
    for (family, help) in TIMED {
        metrics::describe_histogram!(seconds_of(family), metrics::Unit::Seconds, help);
    }
}

/// One counter: `bloom_guard_<name>_total{filter, outcome}`. Without the feature `metrics` no clock is read.
pub(crate) struct Count {
    total: AtomicU64,
    #[cfg(feature = "metrics")]
    published: metrics::Counter,
    #[cfg(feature = "metrics")]
    seconds: metrics::Histogram,
}

#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "only the recorder wants names and times")
)]
impl Count {
    fn new(filter: &str, published: Option<(&'static str, &'static str)>) -> Self {
        Self {
            total: AtomicU64::new(0),
            #[cfg(feature = "metrics")]
            published: published.map_or_else(metrics::Counter::noop, |(family, outcome)| {
                let name = format!("bloom_guard_{family}_total");
                let counter =
                    metrics::counter!(name, "filter" => filter.to_owned(), "outcome" => outcome);
                // Some recorders publish nothing before the first increment, which would then be no increase.
                counter.increment(0);
                counter
            }),
            #[cfg(feature = "metrics")]
            seconds: published.filter(|(family, _)| is_timed(family)).map_or_else(
                metrics::Histogram::noop,
                |(family, outcome)| {
                    let filter = filter.to_owned();
                    metrics::histogram!(seconds_of(family), "filter" => filter, "outcome" => outcome)
                },
            ),
        }
    }

    pub(crate) fn add(&self, n: u64) {
        self.total.fetch_add(n, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        self.published.increment(n);
    }

    /// Counts what one piece of work did that began at `begun`.
    fn add_timed(&self, n: u64, begun: Instant) {
        self.add(n);
        #[cfg(feature = "metrics")]
        self.seconds.record(begun.elapsed());
    }

    fn get(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}
