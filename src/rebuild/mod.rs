//! Rebuilding the filter from the database: where the ids come from, when, and in which steps.

mod adapters;
mod carry;
mod report;
mod schedule;
mod sink;
mod source;
mod task;

pub use adapters::{BlockingIds, from_blocking, from_iter, from_stream};
pub use report::{RebuildReport, RebuildStatus, RebuildStep};
pub use schedule::Schedule;
pub use sink::IdSink;
pub use source::RebuildSource;

pub(crate) use carry::Shrinking;
pub(crate) use source::ErasedSource;
pub(crate) use task::Rebuilder;
