//! The HTTP edge: the layer, its service, and the service's future.

pub(crate) mod fleet;
pub(crate) mod future;
pub(crate) mod layer;
mod request;
pub(crate) mod service;
pub(crate) mod verdicts;

pub use self::future::ResponseFuture;
pub use self::layer::RejectingLayer;
pub use self::service::BloomGuardService;
