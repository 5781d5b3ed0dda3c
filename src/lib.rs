//! A cache-penetration guard as tower middleware.

#![warn(clippy::unwrap_used)]

mod absence;
mod background;
mod builder;
mod edge;
mod error;
mod extract;
pub mod filter;
mod future;
mod guard;
mod id;
mod layer;
mod metrics;
mod null_cache;
mod rebuild;
mod rejection;
mod service;
mod settings;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod verdict;
mod visit;

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
pub use rebuild::{
    BlockingIds, IdSink, RebuildReport, RebuildSource, RebuildStatus, RebuildStep, Schedule,
    from_blocking, from_iter, from_stream,
};
pub use rejection::{NotFound, ProblemDetails, RejectReason, Rejected, Rejection};
pub use service::BloomGuardService;
pub use state::{GuardState, LiveFilter};
#[cfg(feature = "uuid")]
#[doc(no_inline)]
pub use uuid::Uuid;
pub use verdict::{Doubt, Proof, Verdict};
