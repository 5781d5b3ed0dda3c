//! A cache-penetration guard as tower middleware.

mod extract;
pub mod filter;
mod id;
mod verdict;

#[cfg(feature = "axum")]
pub use extract::Captures;
pub use extract::{AsId, Extraction, Header, IdExtractor, PathPattern, PatternError, Query};
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
#[cfg(feature = "uuid")]
#[doc(no_inline)]
pub use uuid::Uuid;
pub use verdict::{Doubt, Proof, Verdict};
