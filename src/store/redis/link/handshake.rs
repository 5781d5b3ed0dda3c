//! What a new connection does before it is used.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::process::RedisProcess;
use super::wire::Wire;
use crate::error::StoreError;
use crate::id::Digester;
use crate::store::BoxFuture;
use crate::store::redis::fleet::Fleet;

/// How a new connection joins the filter's metadata.
pub(crate) trait Handshake: Send + Sync {
    /// Joins the filter's metadata, or creates it.
    fn join<'a>(
        &'a self,
        wire: &'a dyn Wire,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<Identity>, StoreError>>;

    /// Asks whether the metadata is still the one that a connection joined; else says what
    /// happened to it.
    fn recheck<'a>(
        &'a self,
        wire: &'a dyn Wire,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<(), End>>;
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

/// What a connection learnt when it joined.
pub(crate) struct Identity {
    pub(crate) digester: Digester,
    /// Random, and new whenever the metadata had to be created or lives on another Redis process. What
    /// was acknowledged in an earlier incarnation may be lost.
    pub(crate) incarnation: Vec<u8>,
    /// How old the incarnation was, at most.
    pub(crate) age: Duration,
    /// The last generation that had gone live; 0 if none had. None that is older is trusted.
    pub(crate) newest: i64,
    pub(crate) process: RedisProcess,
    /// What the metadata say of the fleet, as read by the last poll of this connection.
    pub(crate) fleet: ArcSwap<Fleet>,
}
