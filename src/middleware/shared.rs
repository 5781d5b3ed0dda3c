//! What all layers and services made from one guard share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::request::Parts;
use http::{Method, StatusCode};
use smallvec::SmallVec;
use tracing::Instrument;

use crate::background::{self, Background, persist};
use crate::decide::policy::Mode;
use crate::error::RebuildError;
use crate::extract::{Extraction, IdExtractor};
use crate::guard::Core;
use crate::id::{Id, InvalidId};
use crate::middleware::oversight::{Look, Oversight};
use crate::middleware::rejection::Rejected;
use crate::nulls::rules::{AbsenceRules, reads};
use crate::rebuild::{RebuildReport, Rebuilder, Shrinking};

/// What to do with a request that names something that cannot be an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInvalid {
    /// Refuse it with 404: no record can have such an id.
    #[default]
    NotFound,
    /// Refuse it with 400.
    BadRequest,
    /// Let it pass, unchecked. The handler must reject such ids before it asks the database, or they
    /// are a way around the guard.
    Pass,
}

impl OnInvalid {
    const fn status(self) -> Option<StatusCode> {
        match self {
            Self::NotFound => Some(StatusCode::NOT_FOUND),
            Self::BadRequest => Some(StatusCode::BAD_REQUEST),
            Self::Pass => None,
        }
    }
}

/// The application's choices at the HTTP edge.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) methods: SmallVec<[Method; 2]>,
    pub(crate) on_invalid: OnInvalid,
    pub(crate) absence: AbsenceRules,
    pub(crate) expose_verdict: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            methods: SmallVec::from_buf([Method::GET, Method::HEAD]),
            on_invalid: OnInvalid::default(),
            absence: AbsenceRules::default(),
            expose_verdict: false,
        }
    }
}

impl Options {
    /// Returns the defaults beside this extractor.
    pub(crate) fn for_extractor(extractor: &dyn IdExtractor) -> Self {
        let mut options = Self::default();
        options.absence.marker = extractor.is_ambiguous();
        options
    }
}

/// After so many requests without an id in any the extractor is doubted.
const IN_VAIN: u32 = 1_000;

/// Notices an extractor that finds no id in any request.
#[derive(Debug, Default)]
struct Doubted(AtomicU32);

impl Doubted {
    /// The extractor found no id; says whether it is to be doubted, once.
    fn in_vain(&self) -> bool {
        self.0.load(Ordering::Relaxed) < IN_VAIN
            && self.0.fetch_add(1, Ordering::Relaxed) + 1 == IN_VAIN
    }

    /// The extractor found something.
    fn found(&self) {
        if self.0.load(Ordering::Relaxed) < IN_VAIN {
            self.0.store(IN_VAIN, Ordering::Relaxed);
        }
    }
}

/// The shared part of a guard.
pub(crate) struct Edge {
    pub(crate) core: Arc<Core>,
    pub(crate) extractor: Arc<dyn IdExtractor>,
    pub(crate) options: Options,
    pub(crate) rebuilder: Arc<Rebuilder>,
    doubted: Doubted,
    oversight: Arc<Oversight>,
    /// Ends with the last clone of the guard.
    background: Background,
}

/// What a request turns out to be before anybody is asked.
pub(crate) enum Screened {
    /// Nothing to check.
    Pass,
    /// Refused as it is.
    Reject(Rejected),
    /// It would be refused, but somebody has to look whether that is right.
    Look(Look),
    /// About this id.
    About(Id),
}

impl Edge {
    pub(crate) fn new(
        core: Core,
        rebuilder: Rebuilder,
        extractor: Arc<dyn IdExtractor>,
        options: Options,
        oversight: Oversight,
    ) -> Self {
        Self {
            core: Arc::new(core),
            extractor,
            options,
            rebuilder: Arc::new(rebuilder),
            doubted: Doubted::default(),
            oversight: Arc::new(oversight),
            background: Background::default(),
        }
    }

    /// Starts what runs in the background, at the first use inside a runtime.
    pub(crate) fn start(&self) {
        self.core.start();
        self.background.start(|tasks| {
            let core = Arc::clone(&self.core);
            let filter = &self.core.metrics().filter;
            tasks.spawn(persist(Arc::clone(filter), "canary", move || {
                let core = Arc::clone(&core);
                async move { core.look_into_findings().await }
            }));
            if self.rebuilder.has_source() {
                let rebuilder = Arc::clone(&self.rebuilder);
                let run = move || Arc::clone(&rebuilder).run();
                tasks.spawn(persist(Arc::clone(filter), "rebuild", run));
            }
        });
    }

    /// Rebuilds by hand.
    pub(crate) async fn rebuild(
        &self,
        shrinking: Shrinking,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        self.start();
        let span = background::span(&self.core.metrics().filter);
        self.rebuilder.rebuild(shrinking).instrument(span).await
    }

    /// Sorts a request by its head alone.
    pub(crate) fn screen(&self, parts: &Parts) -> Screened {
        let metrics = self.core.metrics();
        metrics.request();
        let mode = self.core.gate().mode();
        let extraction = if mode != Mode::Off && self.options.methods.contains(&parts.method) {
            self.extract(parts)
        } else {
            Extraction::Unguarded
        };
        match extraction {
            Extraction::Id(id) => Screened::About(id),
            Extraction::Unguarded => {
                metrics.unguarded();
                Screened::Pass
            }
            Extraction::Invalid(reason) => {
                metrics.invalid();
                match self.options.on_invalid.status() {
                    None => Screened::Pass,
                    Some(status) => self.screen_invalid(reason, status, mode, &parts.method),
                }
            }
        }
    }

    fn screen_invalid(
        &self,
        reason: InvalidId,
        status: StatusCode,
        mode: Mode,
        method: &Method,
    ) -> Screened {
        if reads(method) && (mode == Mode::Shadow || self.oversight.looks()) {
            Screened::Look(Look::new(&self.oversight, reason))
        } else if mode == Mode::Shadow {
            Screened::Pass
        } else {
            Screened::Reject(Rejected::invalid(reason, status, method.clone()))
        }
    }

    fn extract(&self, parts: &Parts) -> Extraction {
        let extraction = self.extractor.extract(parts);
        if !matches!(extraction, Extraction::Unguarded) {
            self.doubted.found();
        } else if self.doubted.in_vain() {
            tracing::warn!(
                filter = &*self.core.metrics().filter,
                requests = IN_VAIN,
                "no request so far has had an id: does the extractor match the routes?"
            );
        }
        extraction
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { core, extractor: _, options, rebuilder, doubted: _, oversight: _, background } =
            self;
        f.debug_struct("Edge")
            .field("core", core)
            .field("options", options)
            .field("rebuilder", rebuilder)
            .field("background", background)
            .finish_non_exhaustive()
    }
}
