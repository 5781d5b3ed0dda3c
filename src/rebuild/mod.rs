//! Rebuilding the filter from the database: [where the ids come from](RebuildSource), [when](Schedule), and in which
//! [steps](RebuildStep).
//!
//! The steps, in the order in which they run. The live filter is not touched before *swap*, so a rebuild
//! may end anywhere.
//!
//! | step | what | against |
//! |---|---|---|
//! | *lease* | take the lease, draw the fencing token | two rebuilds at once: the lease saves work, the token decides |
//! | *mark* | note where the journal stands, and which Redis process answers | losses that begin here |
//! | *scan* | scan the source into a filter in this process, again if it outgrows it | |
//! | *compare* | compare the count with the last generation's | an empty view, a wrong tenant |
//! | *journal* | read the journal from the longest transaction before *mark* on into that filter | rows whose transaction the scan could not see |
//! | *allocate* | allocate the building filter, in the loading state | |
//! | *upload* | upload the local filter in pieces | no other process writes to the building filter yet |
//! | *catch up* | let inserts go to both filters from here on | |
//! | *replay* | replay the rest of the journal, up to *catch up* | inserts during the upload |
//! | *verify* | verify the building filter | whatever happened to it meanwhile |
//! | *swap* | put it in the live filter's place, if it is whole and newer | a rebuild overtaken by another |
//! | *confirm* | if the reply is lost, ask what is live | |

mod adapters;
mod run;
mod schedule;
mod shortfall;
mod sink;
mod source;
mod task;

pub use crate::store::{RebuildReport, RebuildStatus, RebuildStep};
pub use adapters::{BlockingIds, from_blocking, from_fn, from_iter};
pub use schedule::Schedule;
pub use sink::IdSink;
pub use source::RebuildSource;

pub(crate) use run::Shrinking;
pub(crate) use source::ErasedSource;
pub(crate) use task::Rebuilder;
