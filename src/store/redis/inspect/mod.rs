//! Reads a filter in Redis without joining its metadata: nothing here writes. For the command `bloom-guard`.
//!
//! | file | what |
//! |---|---|
//! | `server` | a connection, and what is asked on it |
//! | `metadata` | what a filter's metadata say |
//! | `filter` | a filter: its shards, and what it says of ids |
//! | `shard` | one of them |
//! | `trace` | what is known of one id beside the filter's bits |
//! | `error`, `looked` | why nothing can be told, and what can |
//! | `defaults` | what a guard keeps, by its settings' defaults |

mod defaults;
mod error;
mod filter;
mod looked;
mod metadata;
mod server;
mod shard;
mod trace;

pub use defaults::Defaults;
pub use error::InspectError;
pub use filter::{Filter, nodes_of, shards_of};
pub use looked::Looked;
pub use metadata::Metadata;
pub use server::{Said, Server};
pub use shard::{NextFilter, Shard};
pub use trace::Inserts;
