//! The deterministic simulation.
#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the crate's own sources, compiled for this program, which uses its part of them"
)]

/// The crate's own sources, all but its random source.
#[path = "../../src"]
mod sources {
    pub(crate) mod background;
    pub(crate) mod builder;
    pub(crate) mod decide;
    pub(crate) mod edge;
    pub(crate) mod error;
    pub(crate) mod extract;
    pub(crate) mod filter;
    pub(crate) mod future;
    pub(crate) mod guard;
    pub(crate) mod id;
    pub(crate) mod layer;
    pub(crate) mod nulls;
    pub(crate) mod observe;
    pub(crate) mod oversight;
    pub(crate) mod rebuild;
    pub(crate) mod rejection;
    pub(crate) mod service;
    pub(crate) mod settings;
    pub(crate) mod store;
    pub(crate) mod verdict;
    pub(crate) mod visit;
}
use sources::{
    background, builder, decide, edge, error, extract, filter, future, guard, id, layer, nulls,
    observe, oversight, rebuild, rejection, service, settings, store, verdict, visit,
};

mod campaign;
mod database;
mod differential;
mod invariants;
mod kept;
mod mishaps;
mod model;
mod net;
mod oracle;
mod plan;
mod random;
mod recording;
#[path = "../support/redis_server.rs"]
mod redis_server;
mod rng;
mod scripts;
mod seeded;
mod shrink;
mod trace;
mod world;

pub use builder::Builder;
pub use decide::policy::{Mode, OnUnknown};
pub use edge::OnInvalid;
pub use error::{BoxError, ConfigError, InsertError, RebuildError, RemoveError, StoreError};
#[cfg(feature = "axum")]
pub use extract::Captures;
pub use extract::{AsId, Extraction, Header, IdExtractor, PathPattern, PatternError, Query};
pub use future::ResponseFuture;
pub use guard::removed::Removed;
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
pub use layer::BloomGuard;
pub use nulls::rules::Missing;
pub use observe::metrics::Stats;
pub use observe::state::{GuardState, LiveFilter};
pub use rebuild::{
    BlockingIds, IdSink, RebuildReport, RebuildSource, RebuildStatus, RebuildStep, Schedule,
    from_blocking, from_iter, from_stream,
};
pub use rejection::{NotFound, ProblemDetails, RejectReason, Rejected, Rejection};
pub use service::BloomGuardService;
pub use verdict::{Doubt, Proof, Verdict};

use std::process::ExitCode;

fn main() -> ExitCode {
    campaign::main()
}
