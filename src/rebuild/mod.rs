//! Rebuilding the filter from the database: [where the ids come from](RebuildSource), [when](Schedule), and in which
//! [steps](RebuildStep).
//!
//! The live filter is not touched before *swap*, so a rebuild may end anywhere. Why nothing is lost, and what each step is for: the
//! guide's page [`design`](crate::guide::design).

mod adapters;
mod run;
mod schedule;
mod shortfall;
mod sink;
mod source;
mod task;

pub use crate::store::{RebuildReport, RebuildStatus, RebuildStep};
pub use adapters::{BlockingIds, from_blocking, from_fn, from_iter, from_stream};
pub use schedule::Schedule;
pub use sink::IdSink;
pub use source::RebuildSource;

pub(crate) use run::{Cause, Rebuilder};
pub(crate) use source::ErasedSource;
