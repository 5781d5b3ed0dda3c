//! What a guard shows of itself: counters, state, and log lines that a flood cannot multiply.

pub(crate) mod metrics;
pub(crate) mod state;
pub(crate) mod throttle;
