//! The guard itself: asks the store, decides by the table, and learns from the answers that the middleware brings.

pub(crate) mod canary;
mod served;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::canary::{ALARM_PAUSE, Findings};
use crate::background::persist;
use crate::decide::bucket::{Bucket, Throttle};
use crate::decide::gate::{Gate, Ruling, Subject, Why};
use crate::decide::recent::IdHash;
use crate::error::StoreError;
use crate::extract::IdExtractor;
use crate::id::{Id, InvalidId};
use crate::nulls::rules::{Lesson, is_found};
use crate::nulls::scope::Scope;
#[cfg(feature = "metrics")]
use crate::observe::gauges::Gauges;
use crate::observe::metrics::Metrics;
use crate::observe::state::GuardState;
use crate::random;
use crate::rebuild::{ErasedSource, Rebuilder, Schedule};
use crate::settings::Settings;
use crate::store::{Answer, Inserted, Lookup, NewNull, NullClaim, Removed, Store};
use crate::verdict::Verdict;

/// Between two log lines about requests answered 503.
const BUSY_PAUSE: Duration = Duration::from_secs(60);
/// How long a removal is remembered without a regular schedule.
const REMOVED_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const WATCH: Duration = Duration::from_secs(1);
/// Seconds without a filter before a line is written: most failovers and small rebuilds take less.
const LONG: u32 = 10;

/// Nulls written after 404s, so that a flood cannot fill Redis with them.
const NULLS_PER_SECOND: u32 = 1_000;
/// How many removals are remembered. Each takes some 150 bytes of Redis until the next rebuild: with one each hour, 55 MB at most.
const REMOVALS_AT_ONCE: u32 = 10_000;
const REMOVALS_PER_SECOND: u32 = 100;

/// What all clones, layers and services of one guard share.
pub(crate) struct Guard {
    pub(crate) store: Arc<Store>,
    pub(crate) extractor: Arc<dyn IdExtractor>,
    pub(crate) settings: Settings,
    pub(crate) rebuilder: Arc<Rebuilder>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) gate: Gate,
    pub(crate) findings: Findings,
    /// Requests whose id is called invalid, and that pass: nothing else would notice that the handler reads them.
    pub(crate) invalid_sample: Bucket,
    invalid_alarms: Throttle,
    #[cfg(feature = "metrics")]
    gauges: Gauges,
    busy: Throttle,
    null_writes: Bucket,
    removals: Bucket,
    removed_ttl: Duration,
}

impl Guard {
    pub(crate) fn new(
        store: Store,
        extractor: Arc<dyn IdExtractor>,
        source: Option<(Schedule, Arc<dyn ErasedSource>)>,
        settings: Settings,
    ) -> Self {
        let store = Arc::new(store);
        let metrics = Arc::new(Metrics::new(&settings.name));
        let longest_gap = source.as_ref().and_then(|(schedule, _)| schedule.longest_gap());
        let rebuilder = {
            let store = Arc::clone(&store);
            let extractor = Arc::clone(&extractor);
            Rebuilder::new(store, extractor, source, &settings, Arc::clone(&metrics))
        };
        Self {
            extractor,
            rebuilder: Arc::new(rebuilder),
            gate: Gate::new(&settings, store.fleet_mode()),
            findings: Findings::new(Arc::clone(&store), Arc::clone(&metrics), settings.audits),
            invalid_sample: Bucket::empty(settings.audits),
            invalid_alarms: Throttle::new(ALARM_PAUSE),
            #[cfg(feature = "metrics")]
            gauges: Gauges::new(&metrics.filter),
            busy: Throttle::new(BUSY_PAUSE),
            null_writes: Bucket::new(NULLS_PER_SECOND, NULLS_PER_SECOND),
            removals: Bucket::new(REMOVALS_PER_SECOND, REMOVALS_AT_ONCE),
            removed_ttl: settings.removed_ttl.or(longest_gap).unwrap_or(REMOVED_TTL),
            settings,
            store,
            metrics,
        }
    }

    pub(crate) fn spawn(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        self.store.spawn(tasks);
        let name = &self.metrics.filter;
        persist(tasks, name, "canary", self, |guard| async move {
            guard.findings.look_into().await;
        });
        persist(tasks, name, "state", self, Self::watch);
        if self.rebuilder.source.is_some() {
            persist(tasks, name, "rebuild", &self.rebuilder, Rebuilder::run);
        }
    }

    #[inline]
    pub(crate) fn subject(&self, id: Id, now: Instant) -> Subject {
        let hash = self.gate.hash(&id);
        let mut subject = Subject::new(id, hash);
        if self.gate.found.holds(hash, now) {
            return subject.unasked(Why::Found);
        }
        let (digest, copied) = self.store.copied(&subject.id);
        subject.digest = digest;
        match copied.filter(|copied| self.gate.is_trusted(hash, copied.at, now)) {
            Some(copied) if copied.of_live => subject.unasked(Why::Copied),
            copied => Subject { is_copied: copied.is_some(), ..subject },
        }
    }

    /// Counts a look-up that began at `asked`. Returns its verdict for a request that nulls of the scope `needed` may refuse.
    pub(crate) fn heed(
        &self,
        lookup: &Lookup,
        asked: Instant,
        needed: impl FnOnce() -> Scope,
    ) -> Verdict {
        self.metrics.check(lookup.verdict, asked);
        self.findings.served.sees(lookup.claim.generation, Instant::now);
        lookup.verdict_for(needed)
    }

    /// Decides as [`Gate::rule`], and counts.
    #[inline]
    pub(crate) fn rule(&self, ids: &mut [Subject], unread: usize, now: Instant) -> Ruling {
        let ruling = self.gate.rule(ids, unread, now);
        match &ruling {
            Ruling::Admit { why, no_room, .. } => {
                self.metrics.admitted.add(1);
                match why {
                    Why::Present => {}
                    Why::Found => self.metrics.admitted_found.add(1),
                    Why::Copied => self.metrics.admitted_copied.add(1),
                    Why::Unknown | Why::Unsettled => self.metrics.admitted_unknown.add(1),
                    Why::Sample => self.metrics.audits.add(1),
                    Why::Shadow => self.metrics.shadowed.add(1),
                }
                if let Some(verdict) = no_room {
                    self.count_busy(*verdict, now);
                }
            }
            Ruling::Refuse(_) => self.metrics.refused.add(1),
            Ruling::Busy(verdict) => self.count_busy(*verdict, now),
        }
        ruling
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

    pub(crate) fn found(&self, id: &Id, hash: IdHash, why: Why, asked: Instant) {
        let now = Instant::now();
        self.gate.found(hash, now);
        match why {
            Why::Found => self.findings.serves(id, asked, now),
            Why::Sample | Why::Shadow | Why::Unsettled => {
                self.findings.report(id.clone());
            }
            // No filter was said to lack it.
            Why::Copied | Why::Present | Why::Unknown => {}
        }
    }

    pub(crate) fn missing(&self, hash: IdHash, why: Why) {
        let first = self.gate.missing(hash, Instant::now());
        if first && let Why::Present | Why::Copied = why {
            self.metrics.present_missing.add(1);
        }
    }

    /// Looks at the answer to a request that was let through although its id is invalid.
    pub(crate) fn judge_invalid(&self, reason: InvalidId, status: StatusCode) {
        if !is_found(status) {
            return;
        }
        self.metrics.invalid_answered.add(1);
        if let Some(requests) = self.invalid_alarms.note(Instant::now()) {
            tracing::error!(
                parent: None,
                filter = &*self.metrics.filter,
                %reason,
                %status,
                requests,
                "a request whose id is called invalid was answered as if there were a record: a route that \
                 the extractor should except, or another type than the handler's"
            );
        }
    }

    /// Remembers a null, if there are not too many a second.
    pub(crate) fn learn(&self, id: &Id, claim: NullClaim, lesson: Lesson) -> Answer<()> {
        if !self.null_writes.take(Instant::now()) {
            self.metrics.nulls_limited.add(1);
            return Answer::Ready(());
        }
        let ttl = spread(self.settings.nulls.ttl).min(lesson.fresh);
        let metrics = Arc::clone(&self.metrics);
        let remembered = self.store.remember(id, NewNull { claim, scope: lesson.scope, ttl });
        remembered.map(move |remembered| metrics.null(remembered))
    }

    pub(crate) async fn insert(&self, ids: Vec<Id>) -> Result<Inserted, StoreError> {
        let count = ids.len() as u64;
        let begun = Instant::now();
        let outcome = self.store.add(ids.clone()).await;
        self.metrics.insert(count, outcome.as_ref().map(drop), begun);
        if outcome.is_ok() {
            ids.iter().for_each(|id| self.gate.inserted(id));
        }
        outcome
    }

    pub(crate) async fn remove(&self, id: &Id) -> Result<Removed, StoreError> {
        self.gate.removed(id, Instant::now());
        if !self.removals.take(Instant::now()) {
            self.metrics.removed(Some(Removed::Withheld));
            return Ok(Removed::Withheld);
        }
        let outcome = self.store.remove(id, spread(self.removed_ttl)).await;
        self.metrics.removed(outcome.as_ref().ok().copied());
        outcome
    }

    /// Looks at the guard's state each second, and writes a line when no filter has answered for a while, and when one answers again.
    async fn watch(self: Arc<Self>) {
        let mut unready = 0;
        loop {
            if self.metrics.checks.rests(WATCH) {
                self.metrics.probe(&self.store).await;
            }
            let state = self.state();
            #[cfg(feature = "metrics")]
            self.gauges.set(&state);
            if state.is_ready() {
                if unready > LONG {
                    tracing::info!(lasted = ?WATCH * unready, "the filter answers again");
                }
                unready = 0;
            } else {
                if unready == LONG {
                    tracing::warn!(
                        trouble = state.trouble.as_deref(),
                        "the filter, or one of its shards, has not answered for ten seconds, and refuses nothing"
                    );
                }
                unready += 1;
            }
            sleep(WATCH).await;
        }
    }

    pub(crate) fn state(&self) -> GuardState {
        GuardState::new(self.store.condition(), &self.gate, &self.metrics)
    }
}

/// Changes a lifetime by up to a tenth, lest nulls stored together end together.
fn spread(ttl: Duration) -> Duration {
    ttl.mul_f64(0.9 + 0.2 * random::fraction())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_spread_by_a_tenth_and_no_more() {
        let ttl = Duration::from_secs(30);
        let spread: Vec<_> = (0..1000).map(|_| spread(ttl)).collect();
        let tenth = Duration::from_secs(27)..=Duration::from_secs(33);
        assert!(spread.iter().all(|ttl| tenth.contains(ttl)));
        assert!(spread.iter().any(|ttl| *ttl < Duration::from_secs(28)));
        assert!(spread.iter().any(|ttl| *ttl > Duration::from_secs(32)));
    }
}
