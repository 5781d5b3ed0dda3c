//! The deterministic simulation.
#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the crate's own sources, compiled for this program, which uses its part of them"
)]

#[path = "../../src/absence.rs"]
mod absence;
#[path = "../../src/background.rs"]
mod background;
#[path = "../../src/brake.rs"]
mod brake;
#[path = "../../src/bucket.rs"]
mod bucket;
#[path = "../../src/builder.rs"]
mod builder;
#[path = "../../src/canary.rs"]
mod canary;
#[path = "../../src/edge.rs"]
mod edge;
#[path = "../../src/error/mod.rs"]
mod error;
#[path = "../../src/extract/mod.rs"]
mod extract;
#[path = "../../src/filter/mod.rs"]
pub mod filter;
#[path = "../../src/future.rs"]
mod future;
#[path = "../../src/guard.rs"]
mod guard;
#[path = "../../src/id.rs"]
mod id;
#[path = "../../src/lane.rs"]
mod lane;
#[path = "../../src/layer.rs"]
mod layer;
#[path = "../../src/metrics.rs"]
mod metrics;
#[path = "../../src/null_cache.rs"]
mod null_cache;
#[path = "../../src/policy.rs"]
mod policy;
#[path = "../../src/rebuild/mod.rs"]
mod rebuild;
#[path = "../../src/rejection.rs"]
mod rejection;
#[path = "../../src/removal.rs"]
mod removal;
#[path = "../../src/scope.rs"]
mod scope;
#[path = "../../src/service.rs"]
mod service;
#[path = "../../src/settings.rs"]
mod settings;
#[path = "../../src/sightings.rs"]
mod sightings;
#[path = "../../src/state.rs"]
mod state;
#[path = "../../src/store/mod.rs"]
mod store;
#[path = "../../src/verdict.rs"]
mod verdict;
#[path = "../../src/visit.rs"]
mod visit;

mod campaign;
mod database;
mod differential;
mod invariants;
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

pub use absence::Missing;
pub use builder::Builder;
pub use edge::OnInvalid;
pub use error::{BoxError, ConfigError, InsertError, RebuildError, RemoveError, StoreError};
#[cfg(feature = "axum")]
pub use extract::Captures;
pub use extract::{AsId, Extraction, Header, IdExtractor, PathPattern, PatternError, Query};
pub use future::ResponseFuture;
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
pub use layer::BloomGuard;
pub use metrics::Stats;
pub use policy::{Mode, OnUnknown};
pub use rebuild::{
    BlockingIds, IdSink, RebuildReport, RebuildSource, RebuildStatus, RebuildStep, Schedule,
    from_blocking, from_iter, from_stream,
};
pub use rejection::{NotFound, ProblemDetails, RejectReason, Rejected, Rejection};
pub use removal::Removed;
pub use service::BloomGuardService;
pub use state::{GuardState, LiveFilter};
pub use verdict::{Doubt, Proof, Verdict};

use std::process::ExitCode;

fn main() -> ExitCode {
    campaign::main()
}
