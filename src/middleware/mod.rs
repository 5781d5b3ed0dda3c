//! The HTTP edge: layer, service and future, and the responses to refused requests.

pub(crate) mod future;
pub(crate) mod layer;
pub(crate) mod oversight;
pub(crate) mod rejection;
pub(crate) mod service;
pub(crate) mod shared;
pub(crate) mod visit;
