//! The HTTP edge: layer, service and future, and the responses to refused requests.

mod fleet;
pub(crate) mod future;
pub(crate) mod invalid;
pub(crate) mod layer;
mod list;
pub(crate) mod rejection;
mod request;
pub(crate) mod service;
pub(crate) mod shared;
pub(crate) mod verdicts;
mod watch;
