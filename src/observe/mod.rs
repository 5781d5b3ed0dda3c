//! What a guard shows of itself: counters, state, and log lines that a flood cannot multiply.

pub(crate) mod activity;
pub(crate) mod gauges;
pub(crate) mod metrics;
pub(crate) mod probe;
pub(crate) mod state;
pub(crate) mod throttle;
pub(crate) mod times;
pub(crate) mod unready;
