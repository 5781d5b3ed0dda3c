//! What all layers and services made from one guard share.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::Level;

use super::invalid::InvalidCanary;
use super::no_id::NoIdAlarm;
use super::options::Options;
use crate::background::{Background, persist};
use crate::decide::bucket::Bucket;
use crate::extract::IdExtractor;
use crate::filter::Generation;
use crate::guard::Guard;
use crate::id::Id;
use crate::rebuild::Rebuilder;
use crate::verdict::Proof;

/// The store of a filter that another system writes. Without the crate feature `redis` there is none.
#[cfg(feature = "redis")]
pub(crate) type Foreign = Arc<crate::store::foreign::ForeignStore>;
#[cfg(not(feature = "redis"))]
pub(crate) type Foreign = std::convert::Infallible;

/// How many refusals a second are told of in the log, if anybody reads so much.
const REFUSALS_TOLD: u32 = 1;

/// The shared part of a guard.
pub(crate) struct Shared {
    pub(crate) guard: Arc<Guard>,
    pub(super) rebuilder: Arc<Rebuilder>,
    pub(super) extractor: Arc<dyn IdExtractor>,
    pub(super) options: Options,
    pub(super) invalid: Arc<InvalidCanary>,
    pub(super) no_id: NoIdAlarm,
    /// Lines about refusals.
    pub(super) told: Bucket,
    /// The filter that another system writes, if there is one.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "without Redis there is none"))]
    pub(super) foreign: Option<Foreign>,
    /// Ends with the last clone of the guard.
    background: Background,
}

impl Shared {
    pub(crate) fn new(
        guard: Guard,
        rebuilder: Rebuilder,
        extractor: Arc<dyn IdExtractor>,
        options: Options,
        audits: u32,
        foreign: Option<Foreign>,
    ) -> Self {
        Self {
            invalid: Arc::new(InvalidCanary::new(&guard.metrics, audits)),
            guard: Arc::new(guard),
            rebuilder: Arc::new(rebuilder),
            extractor,
            options,
            no_id: NoIdAlarm::default(),
            told: Bucket::new(REFUSALS_TOLD, 1),
            foreign,
            background: Background::default(),
        }
    }

    /// Returns the filter's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.guard.metrics.filter
    }

    /// Writes a line about one refusal a second, if anybody reads that. The id itself is in no line: its digest is.
    pub(super) fn tell_of_refusal(
        &self,
        id: &Id,
        proof: Proof,
        generation: Option<Generation>,
        now: Instant,
    ) {
        if tracing::enabled!(Level::DEBUG) && self.told.take(now).is_ok() {
            tracing::debug!(
                parent: None,
                filter = &**self.name(),
                by = proof.as_str(),
                generation = generation.map(Generation::get),
                digest = self.guard.store.digest(id).map(display),
                "a request is refused, as its id is absent: one a second is told of"
            );
        }
    }

    /// Starts what runs in the background, at the first use inside a runtime.
    pub(crate) fn start(&self) {
        self.guard.store.start();
        self.background.start(|tasks| {
            let (name, guard) = (self.name(), &self.guard);
            persist(tasks, name, "canary", guard, Guard::look_into_findings);
            persist(tasks, name, "state", guard, Guard::watch);
            persist(tasks, name, "log", guard, Guard::tell_rests);
            persist(tasks, name, "log", &self.invalid, InvalidCanary::tell_rests);
            if self.rebuilder.has_source() {
                persist(tasks, name, "rebuild", &self.rebuilder, Rebuilder::run);
            }
        });
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("filter", self.name()).finish_non_exhaustive()
    }
}
