//! What follows from Redis being another than before: restarted, failed over, without its metadata, or with data
//! that have gone back in time.
//!
//! An *incarnation* is one life of a filter's metadata on one Redis process. A restart, a failover, a loss of the
//! metadata, data that go back in time and a clock that jumps each begin another one. Inserts acknowledged in
//! an earlier incarnation may be lost.

use std::time::Duration;

pub(crate) mod identity;
mod join;
pub(crate) mod join_all;
pub(crate) mod known_fleet;
pub(crate) mod known_shard;
mod recent;
mod replay;
mod seen;

/// How long the first scan of an incarnation waits, and every scan after the last sign of a replay. By
/// then each process has found the incarnation and begun its replay: connections are polled once a
/// second, an attempt to connect takes 0.75 s at most where somebody answers, 0.1 s more in a cluster, and the wait before it 0.5 s.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
