//! What a guard shows of itself: counters and state.

pub(crate) mod metrics;
pub(crate) mod state;
