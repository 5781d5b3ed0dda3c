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
    pub(crate) mod error;
    pub(crate) mod extract;
    pub(crate) mod filter;
    pub(crate) mod guard;
    pub(crate) mod id;
    pub(crate) mod middleware;
    pub(crate) mod nulls;
    pub(crate) mod observe;
    pub(crate) mod rebuild;
    pub(crate) mod settings;
    pub(crate) mod store;
    pub(crate) mod verdict;
}
use sources::{
    background, builder, decide, error, extract, filter, guard, id, middleware, nulls, observe,
    rebuild, settings, store, verdict,
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
pub use error::{BoxError, ChangeError, ConfigError, RebuildError, SettingError, StoreError};
#[cfg(feature = "axum")]
pub use extract::Captures;
pub use extract::{AsId, Extraction, Header, IdExtractor, PathPattern, PatternError, Query};
pub use guard::removed::Removed;
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
pub use middleware::future::ResponseFuture;
pub use middleware::layer::BloomGuard;
pub use middleware::rejection::{NotFound, ProblemDetails, RejectReason, Rejected, Rejection};
pub use middleware::service::BloomGuardService;
pub use middleware::shared::OnInvalid;
pub use nulls::rules::Missing;
pub use observe::metrics::Stats;
pub use observe::state::{GuardState, LiveFilter};
pub use rebuild::{
    BlockingIds, IdSink, RebuildReport, RebuildSource, RebuildStatus, RebuildStep, Schedule,
    from_blocking, from_iter, from_stream,
};
pub use verdict::{Doubt, Proof, Verdict};

use std::process::ExitCode;

fn main() -> ExitCode {
    campaign::main()
}
