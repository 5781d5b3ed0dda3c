//! What follows from Redis being another than before: restarted, failed over, without its metadata, or with data
//! that have gone back in time.
//!
//! An *incarnation* is one life of a filter's metadata on one Redis process. A restart, a failover, a loss of the
//! metadata, data that go back in time and a clock that jumps each begin another one. Inserts acknowledged in
//! an earlier incarnation may be lost.
//!
//! | file | what |
//! |---|---|
//! | `identity` | what a connection learns when it joins |
//! | `join` | a new connection joins a shard's incarnation, or begins one |
//! | `join_all` | it joins that of every shard on its node |
//! | `known_fleet` | what this process knows of the fleet, and tells to metadata that do not |
//! | `known_shard` | what it knows of one shard, whichever connection has told it |
//! | `recent` | the ids that this process inserted lately |
//! | `replay` | inserts them again into an incarnation that may lack them |
//! | `seen` | how far this process has seen an incarnation come |

use std::time::Duration;

pub(crate) mod identity;
mod join;
pub(crate) mod join_all;
pub(crate) mod known_fleet;
pub(crate) mod known_shard;
mod recent;
mod replay;
mod seen;

/// How long the first swap of an incarnation waits, and every swap after the last sign of a replay. By
/// then each process has found the incarnation and begun its replay: connections are polled once a
/// second, an attempt to connect takes 0.75 s at most where somebody answers, 0.1 s more in a cluster, and the wait before it 0.5 s.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
