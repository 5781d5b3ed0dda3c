//! The decision: what becomes of a request about an id.
//!
//! Knows neither HTTP nor Redis. The edge brings an id and gets a [`Decision`]; when an admitted
//! request ends in "there is no such record", it brings the id again to have that remembered.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{InsertError, StoreError};
use crate::id::Id;
use crate::metrics::Metrics;
use crate::removal::Removed;
use crate::scope::Scope;
use crate::store::{Asked, Asking, Condition, Lookup, Remembered, Store, Survey};
use crate::verdict::{Proof, Verdict};

/// What decides.
#[derive(Debug)]
pub(crate) struct Core {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    null_ttl: Duration,
    removed_ttl: Duration,
    jitter: Jitter,
}

/// What was found and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) ruling: Ruling,
    /// For which requests the proof holds.
    pub(crate) scope: Scope,
    pub(crate) asked: Asked,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    Admit,
    Refuse(Proof),
}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        null_ttl: Duration,
        removed_ttl: Duration,
    ) -> Self {
        Self { store, metrics, null_ttl, removed_ttl, jitter: Jitter::new() }
    }

    /// Starts the store's background tasks; needs a Tokio runtime.
    pub(crate) fn start(&self) {
        self.store.start();
    }

    /// Decides on a request about this id.
    pub(crate) fn decide(&self, id: &Id) -> Asking<Decision> {
        match self.store.check(id) {
            Asking::Ready(lookup) => Asking::Ready(settle(lookup, &self.metrics)),
            pending @ Asking::Pending(_) => {
                let metrics = Arc::clone(&self.metrics);
                pending.map(move |lookup| settle(lookup, &metrics))
            }
        }
    }

    /// Remembers that an id which was found present turned out to be missing.
    pub(crate) fn remember(&self, id: &Id, asked: Asked, scope: Scope) -> Asking<()> {
        match self.store.remember(id, asked, scope, self.jitter.spread(self.null_ttl)) {
            Asking::Ready(remembered) => {
                self.metrics.null(remembered);
                Asking::Ready(())
            }
            pending @ Asking::Pending(_) => {
                let metrics = Arc::clone(&self.metrics);
                pending.map(move |remembered| metrics.null(remembered))
            }
        }
    }

    pub(crate) async fn insert(&self, ids: Vec<Id>) -> Result<(), InsertError> {
        let count = ids.len() as u64;
        let outcome = self.store.add(ids).await;
        self.metrics.inserted(count, outcome.is_ok());
        outcome
    }

    pub(crate) async fn remove(&self, id: &Id) -> Result<Removed, StoreError> {
        let outcome = self.store.remove(id, self.jitter.spread(self.removed_ttl)).await;
        self.metrics.removed(outcome.as_ref().copied().unwrap_or(Remembered::Failed));
        Ok(match outcome? {
            Remembered::Stored => Removed::Remembered,
            Remembered::Created | Remembered::Late | Remembered::Failed => Removed::Withheld,
        })
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
}

fn settle(lookup: Lookup, metrics: &Metrics) -> Decision {
    let Lookup { verdict, scope, asked } = lookup;
    metrics.check(verdict);
    let ruling = match verdict {
        Verdict::Absent(proof) => Ruling::Refuse(proof),
        // Nothing but a proof refuses (I1).
        Verdict::Present | Verdict::Unknown(_) => Ruling::Admit,
    };
    Decision { verdict, ruling, scope, asked }
}

/// Spreads lifetimes by up to a tenth either way, lest nulls stored together end together.
#[derive(Debug)]
struct Jitter(AtomicU64);

impl Jitter {
    fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().build_hasher().finish()))
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
