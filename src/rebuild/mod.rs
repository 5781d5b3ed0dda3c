//! Rebuilding the filter from the database: [where the ids come from](RebuildSource), [when](Schedule), and in which
//! [steps](RebuildStep).
//!
//! The steps, in the order in which they run. The live filter is not touched before *swap*, so a rebuild
//! may end anywhere. Why nothing is lost: what is inserted from *lease* on goes to both filters. What was inserted before, in a
//! transaction that *scan* cannot see, was inserted less than the longest transaction before *lease*, so *recent* has it.
//!
//! | step | what | against |
//! |---|---|---|
//! | *lease* | size the filter, take the lease, draw the fencing token, and allocate the filter: from here on inserts go to both | two rebuilds at once: the lease saves work, the token decides |
//! | *recent* | wait until all processes have repeated what a new Redis may lack; read the record of recent inserts; where it is not whole, wait for the longest transaction | rows whose transaction the scan cannot see |
//! | *scan* | scan the source into a filter in this process | |
//! | *compare* | compare the count with the last generation's | an empty view, a wrong tenant |
//! | *upload* | add that filter to the allocated one, in pieces | inserts meanwhile: nothing is overwritten |
//! | *verify* | verify the building filter | whatever happened to it meanwhile |
//! | *swap* | put it in the live filter's place, if it is whole and newer; if the reply is lost, ask what is live | a rebuild overtaken by another |
//!
//! A source that outgrows its filter begins again at *lease*, larger.

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

pub(crate) use run::Cause;
pub(crate) use source::ErasedSource;
pub(crate) use task::Rebuilder;
