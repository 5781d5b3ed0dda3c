//! The decision: what becomes of a request about an id.
//!
//! Knows neither HTTP nor Redis. The edge brings an id, learns what is known of it and gets a
//! [`Ruling`]; when an admitted request has been answered, it brings the id again and says how.

pub(crate) mod canary;
mod overload;
pub(crate) mod removed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use self::overload::Overload;
use crate::background;
use crate::decide::bucket::Bucket;
use crate::decide::gate::{Gate, Ruling, Why};
use crate::decide::policy::Policy;
use crate::decide::visitors::Visitor;
use crate::error::{InsertError, StoreError};
use crate::filter::Generation;
use crate::guard::canary::Findings;
use crate::guard::removed::Removed;
use crate::id::Id;
use crate::nulls::scope::Scope;
use crate::observe::metrics::Metrics;
use crate::random;
use crate::store::{Asked, Asking, Condition, Lookup, Remembered, Store, Survey};
use crate::verdict::Verdict;

/// What decides.
#[derive(Debug)]
pub(crate) struct Core {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    findings: Findings,
    overload: Overload,
    /// Carries the filter's name to lines that do not know it.
    span: Span,
    null_writes: Bucket,
    null_ttl: Duration,
    removed_ttl: Duration,
    jitter: Jitter,
}

/// How long nulls last, and how many are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullLimits {
    pub(crate) ttl: Duration,
    pub(crate) removed_ttl: Duration,
    /// Nulls written in a second after 404s.
    pub(crate) per_second: u32,
}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        policy: Policy,
        nulls: NullLimits,
    ) -> Self {
        let NullLimits { ttl: null_ttl, removed_ttl, per_second } = nulls;
        Self {
            store,
            span: background::span(&metrics.filter),
            metrics,
            gate: Arc::new(Gate::new(policy)),
            findings: Findings::new(),
            overload: Overload::new(),
            null_writes: Bucket::new(per_second, per_second),
            null_ttl,
            removed_ttl,
            jitter: Jitter::new(),
        }
    }

    /// Starts the store's background tasks; needs a Tokio runtime.
    pub(crate) fn start(&self) {
        self.store.start();
    }

    /// Says what is known of an id.
    pub(crate) fn check(&self, id: &Id) -> Asking<Lookup> {
        let count = |metrics: &Metrics, lookup: Lookup| {
            metrics.check(lookup.verdict);
            lookup
        };
        match self.store.check(id) {
            Asking::Ready(lookup) => Asking::Ready(count(&self.metrics, lookup)),
            pending @ Asking::Pending(_) => {
                let metrics = Arc::clone(&self.metrics);
                pending.map(move |lookup| count(&metrics, lookup))
            }
        }
    }

    /// Rules on a request for an id of which this is known.
    pub(crate) fn rule(&self, visitor: &Visitor, verdict: Verdict, hearsay: bool) -> Ruling {
        let now = Instant::now();
        let ruling = match verdict {
            Verdict::Absent(proof) if hearsay => self.gate.rule_on_hearsay(visitor, proof, now),
            _ => self.gate.rule(visitor, verdict, now),
        };
        match &ruling {
            Ruling::Admit(admission) => {
                self.metrics.admitted.add(1);
                match admission.why {
                    Why::Present | Why::Hearsay => {}
                    Why::Seen => self.metrics.admitted_seen.add(1),
                    Why::Unknown => self.metrics.admitted_unknown.add(1),
                    Why::Audit(_) => self.metrics.audits.add(1),
                    Why::Shadow(_) => self.metrics.shadowed.add(1),
                }
            }
            Ruling::Refuse(_) => self.metrics.refused.add(1),
            Ruling::Busy { .. } => {
                self.metrics.overloaded.add(1);
                if let Some(requests) = self.overload.note(now) {
                    let filter = &*self.metrics.filter;
                    tracing::warn!(filter, ?verdict, requests, "requests are answered 503");
                }
            }
        }
        ruling
    }

    /// An admitted request found the record.
    pub(crate) fn found(&self, id: Id, visitor: &Visitor, why: Why) {
        self.gate.found(visitor);
        if let Why::Audit(_) | Why::Shadow(_) = why
            && !self.findings.report(id)
        {
            self.metrics.findings_dropped.add(1);
        }
    }

    /// An admitted request found the record missing, for all requests of this scope, and for so long at
    /// most. Only what the filter let pass can become a null: an unknown may be there after all.
    pub(crate) fn missing(
        &self,
        id: &Id,
        visitor: Visitor,
        asked: Asked,
        scope: Scope,
        fresh: Duration,
    ) -> Asking<()> {
        let now = Instant::now();
        let nothing = if !self.span.in_scope(|| self.gate.missing(&visitor, scope, now)) {
            Some(&self.metrics.nulls_doubted)
        } else if self.null_writes.take(now).is_err() {
            Some(&self.metrics.nulls_limited)
        } else {
            None
        };
        let settled = Settled { gate: Arc::clone(&self.gate), visitor };
        if let Some(why) = nothing {
            why.add(1);
            return Asking::Ready(());
        }
        let ttl = self.jitter.spread(self.null_ttl).min(fresh);
        match self.store.remember(id, asked, scope, ttl) {
            Asking::Ready(remembered) => {
                self.metrics.null(remembered);
                Asking::Ready(())
            }
            pending @ Asking::Pending(_) => {
                let metrics = Arc::clone(&self.metrics);
                pending.map(move |remembered| {
                    metrics.null(remembered);
                    drop(settled);
                })
            }
        }
    }

    /// Whether a 404 to this request may be about another thing than the record.
    pub(crate) fn is_about_a_part(&self, visitor: &Visitor) -> bool {
        self.span.in_scope(|| self.gate.is_about_a_part(visitor, Instant::now()))
    }

    /// An admitted request found the record missing, which may be so for this caller only.
    pub(crate) fn missing_to_caller(&self, visitor: &Visitor) {
        self.gate.missing_to_caller(visitor, Instant::now());
    }

    pub(crate) async fn insert(&self, ids: Vec<Id>) -> Result<(), InsertError> {
        let count = ids.len() as u64;
        let outcome = self.store.add(ids.clone()).await;
        self.metrics.inserted(count, outcome.is_ok());
        if outcome.is_ok() {
            ids.iter().for_each(|id| self.gate.visitors().created(id));
        }
        outcome
    }

    pub(crate) async fn remove(&self, id: &Id) -> Result<Removed, StoreError> {
        self.gate.visitors().removed(id);
        let outcome = self.store.remove(id, self.jitter.spread(self.removed_ttl)).await;
        self.metrics.removed(outcome.as_ref().copied().unwrap_or(Remembered::Failed));
        Ok(match outcome? {
            Remembered::Stored => Removed::Remembered,
            Remembered::Created | Remembered::Late | Remembered::Failed => Removed::Withheld,
        })
    }

    /// Looks into what was found although it was held absent, for as long as it is polled.
    pub(crate) async fn look_into_findings(&self) {
        self.findings.look_into(self).await;
    }

    /// Says what is known of an id, uncounted.
    pub(crate) async fn look_up(&self, id: &Id) -> Lookup {
        self.store.check(id).answer().await
    }

    /// Puts a filter that was found incomplete out of use.
    pub(crate) async fn distrust(&self, generation: Generation) -> Result<(), StoreError> {
        self.store.distrust(generation).await
    }

    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        self.store.survey().await
    }

    pub(crate) fn condition(&self) -> Condition {
        self.store.condition()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// A request whose answer is being remembered. Its client may be gone before that is done: somebody else
/// may look for the id then all the same.
struct Settled {
    gate: Arc<Gate>,
    visitor: Visitor,
}

impl Drop for Settled {
    fn drop(&mut self) {
        // When the null has ended, not all who ask for it get through before it is learnt again.
        self.gate.visitors().missed(&self.visitor);
        self.gate.visitors().answered(&self.visitor, Instant::now());
    }
}

/// Spreads lifetimes by up to a tenth either way, lest nulls stored together end together.
#[derive(Debug)]
struct Jitter(AtomicU64);

impl Jitter {
    fn new() -> Self {
        Self(AtomicU64::new(random::scatter()))
    }

    fn spread(&self, ttl: Duration) -> Duration {
        // SplitMix64: good enough to scatter, and not meant to be unguessable.
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let tenths = (z >> 32) as f64 / f64::from(u32::MAX);
        ttl.mul_f64(0.9 + 0.2 * tenths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_spread_by_a_tenth_and_no_more() {
        let jitter = Jitter::new();
        let ttl = Duration::from_secs(30);
        let spread: Vec<_> = (0..1000).map(|_| jitter.spread(ttl)).collect();
        let (low, high) = (Duration::from_secs(27), Duration::from_secs(33));
        assert!(spread.iter().all(|ttl| (low..=high).contains(ttl)));
        assert!(spread.iter().any(|ttl| *ttl < Duration::from_secs(28)));
        assert!(spread.iter().any(|ttl| *ttl > Duration::from_secs(32)));
    }
}
