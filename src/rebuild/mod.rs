//! Rebuilding the filter from the database: where the ids come from, when, and in which steps.
//!
//! The steps, as comments elsewhere name them. Until B9 the live filter is not touched, so a rebuild
//! may die anywhere.
//!
//! | step | what | against |
//! |---|---|---|
//! | B0 | take the lease, draw the fencing token | two rebuilds at once: the lease saves work, the token decides |
//! | B1 | note where the journal stands, and which Redis process answers | losses that begin here |
//! | B3 | scan the source into a filter in this process, again if it outgrows it | |
//! | B4 | compare the count with the last generation's | an empty view, a wrong tenant |
//! | B7 | read the journal from the longest transaction before B1 on into it | rows whose transaction the scan could not see |
//! | B2 | allocate the building filter, in the loading state | |
//! | B5 | upload it in pieces | nobody else writes to it yet |
//! | B6 | let inserts go to both filters from here on | |
//! | B7 | replay the rest of the journal, up to B6 | inserts during the upload |
//! | B8 | verify it | whatever happened to it meanwhile |
//! | B9 | put it in the live filter's place, if it is whole and newer | a rebuild overtaken by another |
//! | B10 | if the reply is lost, ask what is live | |

mod adapters;
mod report;
mod run;
mod schedule;
mod shortfall;
mod sink;
mod source;
mod task;

pub use adapters::{BlockingIds, from_blocking, from_iter, from_stream};
pub use report::{RebuildReport, RebuildStatus, RebuildStep};
pub use schedule::Schedule;
pub use sink::IdSink;
pub use source::RebuildSource;

pub(crate) use run::Shrinking;
pub(crate) use source::ErasedSource;
pub(crate) use task::Rebuilder;
