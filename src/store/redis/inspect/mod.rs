//! Reads a filter in Redis without joining its metadata: nothing here writes. For the command `bloom-guard`.
//!
//! | file | what |
//! |---|---|
//! | `server` | a connection, and what is asked on it |
//! | `metadata` | what a filter's metadata say |
//! | `filter` | a filter: its shards, and what it says of ids |
//! | `shard` | one of them |
//! | `trace` | what is known of one id beside the filter's bits |
//! | `defaults` | what a guard keeps, by its settings' defaults |

mod defaults;
mod filter;
mod metadata;
mod server;
mod shard;
mod trace;

pub use defaults::Defaults;
pub use filter::{Filter, InspectError, Looked, shards_of};
pub use metadata::Metadata;
pub use server::{Said, Server};
pub use shard::{NextFilter, Shard};
pub use trace::Inserts;
