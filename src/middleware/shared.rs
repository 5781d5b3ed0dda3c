//! What all layers and services made from one guard share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::request::Parts;
use http::{Method, StatusCode};
use smallvec::SmallVec;
use tracing::Instrument;

use super::invalid::{InvalidCanary, InvalidSample};
use super::rejection::Rejected;
use crate::background::{self, Background, persist};
use crate::error::RebuildError;
use crate::extract::{Extraction, IdExtractor, IdList};
use crate::guard::Guard;
use crate::id::{Id, InvalidId};
use crate::mode::Mode;
use crate::nulls::rules::{NullRules, reads};
use crate::rebuild::{RebuildReport, Rebuilder, Shrinking};
use crate::store::foreign::ForeignStore;

/// What to do with a request that names something that cannot be an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInvalid {
    /// Refuse it with 404: no record can have such an id. A list of more than [`Id::MAX_LISTED`] ids is refused
    /// with 400.
    #[default]
    NotFound,
    /// Refuse it with 400.
    BadRequest,
    /// Let it pass, unchecked. The handler must reject such ids, and lists that are too long, before it asks the
    /// database, or they are a way around the guard.
    Pass,
}

impl OnInvalid {
    fn status(self, reason: InvalidId) -> Option<StatusCode> {
        match self {
            // Some of the ids may exist.
            Self::NotFound if matches!(reason, InvalidId::TooMany { .. }) => {
                Some(StatusCode::BAD_REQUEST)
            }
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
    pub(crate) nulls: NullRules,
}

impl Options {
    /// Returns the defaults beside this extractor.
    pub(crate) fn for_extractor(extractor: &dyn IdExtractor) -> Self {
        Self {
            methods: SmallVec::from_buf([Method::GET, Method::HEAD]),
            on_invalid: OnInvalid::default(),
            nulls: NullRules { marker: extractor.is_ambiguous(), ..NullRules::default() },
        }
    }
}

/// After so many requests without an id in any there is a warning.
const WITHOUT_ID: u32 = 1_000;

/// Notices an extractor that finds no id in any request.
#[derive(Debug, Default)]
struct NoIdAlarm(AtomicU32);

impl NoIdAlarm {
    /// The extractor found no id; says whether to warn of it, once.
    fn is_due(&self) -> bool {
        self.0.load(Ordering::Relaxed) < WITHOUT_ID
            && self.0.fetch_add(1, Ordering::Relaxed) + 1 == WITHOUT_ID
    }

    /// The extractor found something.
    fn disarm(&self) {
        if self.0.load(Ordering::Relaxed) < WITHOUT_ID {
            self.0.store(WITHOUT_ID, Ordering::Relaxed);
        }
    }
}

/// The shared part of a guard.
pub(crate) struct Shared {
    pub(super) guard: Arc<Guard>,
    pub(super) foreign: Option<Arc<ForeignStore>>,
    pub(super) extractor: Arc<dyn IdExtractor>,
    pub(super) options: Options,
    pub(super) rebuilder: Arc<Rebuilder>,
    no_id: NoIdAlarm,
    invalid: Arc<InvalidCanary>,
    /// Ends with the last clone of the guard.
    background: Background,
}

/// What a request turns out to be before anybody is asked.
pub(super) enum Screened {
    /// Nothing to check.
    Pass,
    /// Refused as it is.
    Reject(Rejected),
    /// It would be refused, but belongs to the sample that shows whether that is right.
    Sample(InvalidSample),
    /// About this id.
    About(Id),
    /// About these ids.
    List(IdList),
}

impl Shared {
    pub(crate) fn new(
        guard: Guard,
        foreign: Option<Arc<ForeignStore>>,
        rebuilder: Rebuilder,
        extractor: Arc<dyn IdExtractor>,
        options: Options,
        invalid: InvalidCanary,
    ) -> Self {
        Self {
            guard: Arc::new(guard),
            foreign,
            extractor,
            options,
            rebuilder: Arc::new(rebuilder),
            no_id: NoIdAlarm::default(),
            invalid: Arc::new(invalid),
            background: Background::default(),
        }
    }

    /// Returns the filter's name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.guard.metrics().filter
    }

    /// Starts what runs in the background, at the first use inside a runtime.
    pub(crate) fn start(&self) {
        self.guard.start();
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

    /// Rebuilds by hand.
    pub(super) async fn rebuild(
        &self,
        shrinking: Shrinking,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        self.start();
        let span = background::span(&self.guard.metrics().filter);
        self.rebuilder.rebuild(shrinking).instrument(span).await
    }

    /// Sorts a request by its head alone.
    pub(super) fn screen(&self, parts: &Parts) -> Screened {
        let metrics = self.guard.metrics();
        metrics.requests.add(1);
        let mode = self.guard.gate().mode();
        let extraction = if mode != Mode::Off && self.options.methods.contains(&parts.method) {
            self.extract(parts)
        } else {
            Extraction::Unguarded
        };
        match extraction {
            Extraction::Id(id) => Screened::About(id),
            Extraction::Ids(ids) => match IdList::new(ids) {
                Ok(Some(list)) => Screened::List(list),
                Ok(None) => self.unguarded(),
                Err(reason) => self.screen_invalid(reason, mode, &parts.method),
            },
            Extraction::Unguarded => self.unguarded(),
            Extraction::Invalid(reason) => self.screen_invalid(reason, mode, &parts.method),
        }
    }

    fn unguarded(&self) -> Screened {
        self.guard.metrics().unguarded.add(1);
        Screened::Pass
    }

    fn screen_invalid(&self, reason: InvalidId, mode: Mode, method: &Method) -> Screened {
        self.guard.metrics().invalid.add(1);
        match self.options.on_invalid.status(reason) {
            None => Screened::Pass,
            Some(_) if reads(method) && (mode == Mode::Shadow || self.invalid.takes()) => {
                Screened::Sample(InvalidSample::new(&self.invalid, reason))
            }
            Some(_) if mode == Mode::Shadow => Screened::Pass,
            Some(status) => Screened::Reject(Rejected::invalid(reason, status, method.clone())),
        }
    }

    fn extract(&self, parts: &Parts) -> Extraction {
        let extraction = self.extractor.extract(parts);
        if !matches!(extraction, Extraction::Unguarded) {
            self.no_id.disarm();
        } else if self.no_id.is_due() {
            tracing::warn!(
                filter = &*self.guard.metrics().filter,
                requests = WITHOUT_ID,
                "no request so far has had an id: does the extractor match the routes?"
            );
        }
        extraction
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guard, options, rebuilder, background, .. } = self;
        f.debug_struct("Shared")
            .field("guard", guard)
            .field("options", options)
            .field("rebuilder", rebuilder)
            .field("background", background)
            .finish_non_exhaustive()
    }
}
