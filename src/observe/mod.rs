//! A guard's [state](GuardState) and [counters](Stats). The guide's page [`operating`](crate::guide::operating) says what to do about
//! them.

pub(crate) mod activity;
#[cfg(feature = "metrics")]
pub(crate) mod gauges;
pub(crate) mod metrics;
pub(crate) mod state;

pub use self::activity::{Failure, WorkState};
pub use self::metrics::Stats;
pub use self::state::GuardState;
pub use crate::decide::lane::LaneState;
pub use crate::store::{CopyState, LiveFilter, Record, ShardsState};
