//! What a new session does before it is used.

use super::process::RedisProcess;
use super::transport::Transport;
use crate::error::StoreError;
use crate::store::BoxFuture;

/// What a store does on the first connection of a session: `I` is what it learns there.
pub(crate) trait Handshake<I>: Send + Sync {
    /// Runs before a new session is used.
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<I, StoreError>>;

    /// Looks, with each poll, whether that still holds. With [`StoreError::NoAnswer`] Redis is lost, with other errors it is another.
    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        identity: &'a I,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Whether a session serves several filters, and outlasts trouble with one of them.
    fn serves_several(&self) -> bool {
        false
    }
}
