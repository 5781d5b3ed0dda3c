//! What follows from Redis being another than before: restarted, failed over, or without its metadata.
//!
//! An *incarnation* is one life of a filter's metadata on one Redis process. A restart, a failover and a
//! loss of the metadata each begin another one. Inserts acknowledged in an earlier incarnation may be lost.
//!
//! | file | what |
//! |---|---|
//! | `join` | a new connection joins the incarnation, or begins one |
//! | `recent` | the ids that this process inserted lately |
//! | `replay` | inserts them again into an incarnation that may lack them |

use std::time::Duration;

pub(crate) mod join;
pub(crate) mod recent;
mod replay;

/// How long the first swap of an incarnation waits, and every swap after the last sign of a replay. By
/// then each process has found the incarnation and begun its replay: connections are polled once a
/// second, an attempt to connect takes 0.75 s at most, and the wait before it 0.5 s.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
