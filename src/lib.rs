//! A cache-penetration guard as tower middleware.

mod extract;
pub mod filter;
mod id;
mod verdict;

pub use extract::{AsId, Extraction, IdExtractor};
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
pub use verdict::{Doubt, Proof, Verdict};
