//! What a guard shows of itself: its [state](GuardState), which [`BloomGuard::state`](crate::BloomGuard::state) returns, and its
//! [counters](Stats), of [`BloomGuard::stats`](crate::BloomGuard::stats). The guide's page [`operating`](crate::guide::operating)
//! says what is to be done about them.

pub(crate) mod activity;
#[cfg(feature = "metrics")]
pub(crate) mod gauges;
pub(crate) mod metrics;
pub(crate) mod state;
pub(crate) mod times;

pub use self::activity::{Failure, WorkState};
pub use self::metrics::Stats;
pub use self::state::GuardState;
pub use crate::decide::lane::LaneState;
pub use crate::store::{CopyState, LiveFilter, Record, ShardsState};
