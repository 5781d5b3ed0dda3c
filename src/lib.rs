//! A cache-penetration guard as tower middleware.

mod error;
mod extract;
pub mod filter;
mod id;
mod rebuild;
mod store;
mod verdict;

pub use error::{BoxError, ConfigError, InsertError, RebuildError, StoreError};
#[cfg(feature = "axum")]
pub use extract::Captures;
pub use extract::{AsId, Extraction, Header, IdExtractor, PathPattern, PatternError, Query};
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
pub use rebuild::{
    BlockingIds, IdSink, RebuildReport, RebuildSource, RebuildStatus, RebuildStep, Schedule,
    from_blocking, from_iter, from_stream,
};
#[cfg(feature = "uuid")]
#[doc(no_inline)]
pub use uuid::Uuid;
pub use verdict::{Doubt, Proof, Verdict};
