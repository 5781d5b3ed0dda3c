//! What a new connection does before it is used.

use std::sync::Arc;

use super::process::RedisProcess;
use super::transport::Transport;
use crate::error::StoreError;
use crate::store::BoxFuture;

/// What a store does on a new connection, and once a second after that. `I` is what it learns there.
pub(crate) trait Handshake<I>: Send + Sync {
    /// Learns what has to be known before the connection is used.
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<I>, StoreError>>;

    /// Asks whether that still holds; else says what happened. Of a node's links one asks.
    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        identity: &'a I,
    ) -> BoxFuture<'a, Result<(), End>>;

    /// The same, by what was found when it was asked last on any link of the node.
    fn holds(&self, _: &RedisProcess, _: &I) -> Result<(), End> {
        Ok(())
    }
}

/// Why a connection is given up, in words.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// Redis is gone, or answers no more.
    Lost(String),
    /// Redis answers, and is not as it was.
    Left(String),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Disconnected { .. } | StoreError::Timeout { .. } => {
                Self::Lost(error.to_string())
            }
            error => Self::Left(error.to_string()),
        }
    }
}
