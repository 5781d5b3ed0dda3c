//! What follows where Redis is another than before.
//!
//! An *incarnation* is one life of a filter's metadata on one Redis process. A restart, a failover, a loss of the metadata, data that
//! go back in time and a clock that jumps each begin another one. Inserts acknowledged in an earlier one may be lost.

use std::time::Duration;

mod join;
pub(crate) mod join_all;
pub(crate) mod known_shard;
mod recent;
mod replay;
mod seen;

/// How long the first scan of an incarnation waits, and every scan after the last sign of a replay, for each 64 shards. Connections
/// are polled once a second: within this time each process has found the incarnation, by a few questions, and scans wait for as long
/// again. Its replay begins within that: an attempt to connect takes 0.75 s at most where somebody answers, 0.1 s more in a cluster,
/// and the wait before it 0.5 s.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
