//! The HTTP edge: layer, service and future, and the responses to refused requests.

pub(crate) mod fleet;
#[cfg(feature = "redis")]
mod foreign;
pub(crate) mod future;
pub(crate) mod layer;
pub(crate) mod rejection;
mod request;
mod screen;
pub(crate) mod service;
pub(crate) mod verdicts;
