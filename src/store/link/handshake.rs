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

    /// Looks whether that still holds; else says what happened. Of a node's links one asks Redis (`asks`); the others go by what
    /// that one has found.
    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        identity: &'a I,
        asks: bool,
    ) -> BoxFuture<'a, Result<(), End>>;

    /// Whether a connection serves several filters, and outlasts what happens to one.
    fn serves_several(&self) -> bool {
        false
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
            StoreError::NoAnswer { .. } => Self::Lost(error.to_string()),
            error => Self::Left(error.to_string()),
        }
    }
}
