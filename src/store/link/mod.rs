//! A Redis, as any store uses it: how connections are made, watched, used and given up. Nothing here knows a key.

pub(crate) mod attempts;
mod breaker;
pub(crate) mod connector;
pub(crate) mod credentials;
mod driver;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod resp;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod supervised;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod transport;
