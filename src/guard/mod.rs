//! The guard itself: asks the store, decides by the table, and learns from answers.
//!
//! Knows neither HTTP nor Redis. The middleware brings an id and learns what becomes of the request; when
//! an admitted request has been answered, it says how.

pub(crate) mod canary;
pub(crate) mod finding;
mod jitter;
pub(crate) mod removed;
mod served;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::canary::Findings;
use self::jitter::spread;
use crate::decide::bucket::Bucket;
use crate::decide::gate::{Gate, Known, Ruling, Why};
use crate::decide::policy::Policy;
use crate::decide::recent::IdHash;
use crate::error::StoreError;
use crate::guard::removed::Removed;
use crate::id::{Id, KeyedDigest};
use crate::nulls::rules::Lesson;
use crate::nulls::scope::Scope;
use crate::observe::gauges::Gauges;
use crate::observe::metrics::Metrics;
use crate::observe::probe::probe;
use crate::observe::state::GuardState;
use crate::observe::throttle::Throttle;
use crate::observe::unready::Unready;
use crate::store::{Answer, Lookup, NewNull, NullClaim, Remembered, Store};
use crate::verdict::Verdict;

/// The least time between two lines about requests that are answered 503.
const BUSY_PAUSE: Duration = Duration::from_secs(60);
/// How often the guard looks how it fares.
const WATCH: Duration = Duration::from_secs(1);

/// How many removals are remembered: each takes some 150 bytes of Redis until a rebuild has read that the record is
/// gone. With rebuilds each hour that is 55 MB at most.
const REMOVALS_AT_ONCE: u32 = 10_000;
const REMOVALS_PER_SECOND: u32 = 100;

/// What decides and learns.
pub(crate) struct Guard {
    pub(crate) store: Arc<dyn Store>,
    gauges: Gauges,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gate: Gate,
    pub(crate) findings: Findings,
    busy: Throttle,
    null_writes: Bucket,
    removals: Bucket,
    nulls: NullLimits,
}

/// How long nulls last, and how many are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullLimits {
    pub(crate) ttl: Duration,
    pub(crate) removed_ttl: Duration,
    /// Nulls written in a second after 404s.
    pub(crate) per_second: u32,
}

impl Guard {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        policy: &Policy,
        nulls: NullLimits,
    ) -> Self {
        Self {
            gate: Gate::new(policy, store.fleet_mode()),
            findings: Findings::new(&metrics.filter, policy.audits),
            busy: Throttle::new(&metrics.filter, BUSY_PAUSE, tell_of_more_busy),
            store,
            gauges: Gauges::new(&metrics.filter),
            metrics,
            null_writes: Bucket::new(nulls.per_second, nulls.per_second),
            removals: Bucket::new(REMOVALS_PER_SECOND, REMOVALS_AT_ONCE),
            nulls,
        }
    }

    /// Says what is known of an id before anybody is asked: enough to pass, or what the look-up's answer is missing from.
    /// Returns also the digest, if that took one.
    pub(crate) fn first_row(
        &self,
        id: &Id,
        hash: IdHash,
        now: Instant,
    ) -> (Option<KeyedDigest>, Known) {
        if self.gate.is_found(hash, now) {
            return (None, Known::Unasked(Why::Found));
        }
        let (digest, copied) = self.store.copied(id);
        let known = match copied.filter(|copied| self.gate.is_trusted(hash, copied.at, now)) {
            Some(copied) if copied.of_live => Known::Unasked(Why::Copied),
            copied => Known::unanswered(copied.is_some()),
        };
        (digest, known)
    }

    /// Counts what a look-up said that was asked for then; returns what it says to a request that only such a null may
    /// refuse.
    pub(crate) fn heed(
        &self,
        lookup: &Lookup,
        asked: Instant,
        needed: impl FnOnce() -> Scope,
    ) -> Verdict {
        self.metrics.check(lookup.verdict, asked);
        self.findings.served.sees(lookup.claim.generation, Instant::now());
        lookup.verdict_for(needed)
    }

    /// Decides on a request for ids of which this is known, and for others that could not be read.
    pub(crate) fn rule(
        &self,
        ids: impl Iterator<Item = (IdHash, Known)>,
        unread: usize,
        now: Instant,
    ) -> Ruling {
        let ruling = self.gate.rule(ids, unread, now);
        match &ruling {
            Ruling::Admit(admission) => {
                self.count_admission(admission.why, admission.verdict, now);
            }
            Ruling::Refuse(_) => self.metrics.refused.add(1),
            Ruling::Busy { verdict, .. } => self.count_busy(*verdict, now),
        }
        ruling
    }

    fn count_admission(&self, why: Why, verdict: Verdict, now: Instant) {
        self.metrics.admitted.add(1);
        match why {
            Why::Present => {}
            Why::Found => self.metrics.admitted_found.add(1),
            Why::Copied => self.metrics.admitted_copied.add(1),
            Why::Unknown | Why::Unsettled => self.metrics.admitted_unknown.add(1),
            Why::Sample(_) => self.metrics.audits.add(1),
            Why::Shadow(_) => self.metrics.shadowed.add(1),
            Why::ShadowBusy => self.count_busy(verdict, now),
        }
    }

    fn count_busy(&self, verdict: Verdict, now: Instant) {
        self.metrics.overloaded.add(1);
        if let Some(requests) = self.busy.note(now) {
            tracing::warn!(
                parent: None,
                filter = &*self.metrics.filter,
                ?verdict,
                requests,
                "requests are answered 503, or pass in shadow mode: the lane has no room, or on_unknown says so. If the \
                 verdict is unknown, state() says why; if it is present, the ids were lately missed, as an attacker's are"
            );
        }
    }

    /// An admitted request of this moment found the record.
    pub(crate) fn found(&self, id: &Id, hash: IdHash, why: Why, asked: Instant) {
        let now = Instant::now();
        self.gate.found(hash, now);
        match why {
            Why::Found => self.findings.serves(id, asked, now),
            Why::Sample(_) | Why::Shadow(_) | Why::Unsettled => {
                if !self.findings.report(id.clone()) {
                    self.metrics.findings_dropped.add(1);
                }
            }
            // The look-up has said that the filter holds it, or that there is none; so does a copy of the live one.
            Why::Copied | Why::Present | Why::Unknown | Why::ShadowBusy => {}
        }
    }

    /// An admitted request found the record missing.
    pub(crate) fn missing(&self, hash: IdHash, why: Why) {
        let first = self.gate.missing(hash, Instant::now());
        if first && let Why::Present | Why::Copied = why {
            self.metrics.present_missing.add(1);
        }
    }

    /// An admitted request was answered, and nothing of it tells of the record.
    pub(crate) fn says_nothing(&self, hash: IdHash, why: Why) {
        if why == Why::Copied {
            self.gate.doubted(hash, Instant::now());
        }
    }

    /// Remembers a null. Only for a request whose look-up said that the id is present: any other knows
    /// neither the generation nor the time that a null rests on.
    pub(crate) fn learn(&self, id: &Id, claim: NullClaim, lesson: Lesson) -> Answer<()> {
        if self.null_writes.take(Instant::now()).is_err() {
            self.metrics.nulls_limited.add(1);
            return Answer::Ready(());
        }
        let ttl = spread(self.nulls.ttl).min(lesson.fresh);
        let metrics = Arc::clone(&self.metrics);
        let remembered = self.store.remember(id, NewNull { claim, scope: lesson.scope, ttl });
        remembered.map(move |remembered| metrics.null(remembered))
    }

    /// An admitted request ended without an answer that tells of the record.
    pub(crate) fn not_answered(&self, hash: IdHash) {
        self.gate.not_answered(hash, Instant::now());
    }

    pub(crate) async fn insert(&self, ids: Vec<Id>) -> Result<(), StoreError> {
        let count = ids.len() as u64;
        let begun = Instant::now();
        let outcome = self.store.add(ids.clone()).await;
        self.metrics.insert(count, &outcome, begun);
        if outcome.is_ok() {
            ids.iter().for_each(|id| self.gate.inserted(id));
        }
        outcome
    }

    pub(crate) async fn remove(&self, id: &Id) -> Result<Removed, StoreError> {
        self.gate.removed(id, Instant::now());
        if self.removals.take(Instant::now()).is_err() {
            self.metrics.removed(Remembered::Late);
            return Ok(Removed::Withheld);
        }
        let outcome = self.store.remove(id, spread(self.nulls.removed_ttl)).await;
        self.metrics.removed(outcome.as_ref().copied().unwrap_or(Remembered::Failed));
        Ok(match outcome? {
            Remembered::Stored => Removed::Remembered,
            Remembered::Created | Remembered::Late | Remembered::Failed => Removed::Withheld,
        })
    }

    /// Writes the lines that end bursts, for as long as it is polled.
    pub(crate) async fn tell_rests(self: Arc<Self>) {
        tokio::join!(self.busy.tell_rests(), self.findings.tell_rests());
    }

    /// Looks into what was found although it was held absent, for as long as it is polled.
    pub(crate) async fn look_into_findings(self: Arc<Self>) {
        self.findings.look_into(&*self.store, &self.metrics).await;
    }

    /// Checks an id of its own, to see whether checks succeed.
    pub(crate) async fn probe(&self) {
        probe(&*self.store, &self.metrics).await;
    }

    /// Looks each second how the guard fares, for as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut unready = Unready::default();
        loop {
            if self.metrics.checks_rest(WATCH) {
                self.probe().await;
            }
            let state = self.state();
            if state.is_ready() {
                // Requests that a copy lets pass do not see it.
                self.gate.built();
            }
            self.gauges.set(&state);
            unready.note(&self.metrics.filter, &state);
            sleep(WATCH).await;
        }
    }

    pub(crate) fn state(&self) -> GuardState {
        GuardState::new(self.store.condition(), &self.gate, &self.metrics)
    }
}

fn tell_of_more_busy(filter: &str, requests: u64) {
    tracing::warn!(
        parent: None,
        filter,
        requests,
        "more requests were answered 503, or passed in shadow mode"
    );
}
