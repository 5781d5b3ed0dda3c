//! What is done first on each connection, and once a second after that.

use std::sync::Arc;

use super::trust::Trust;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::handshake::{End, Handshake};
use crate::store::link::process::RedisProcess;
use crate::store::link::transport::Transport;
use crate::verdict::Doubt;

/// Connections that check look at the filter; those that only write do not.
pub(super) struct Looks(pub(super) Option<Arc<Trust>>);

impl Looks {
    async fn look(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
    ) -> Result<(), StoreError> {
        let Some(trust) = &self.0 else { return Ok(()) };
        trust.look(transport, process).await
    }
}

impl Handshake<()> for Looks {
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<()>, StoreError>> {
        Box::pin(async move {
            self.look(transport, process).await?;
            // There are no metadata of ours to join.
            Ok(Arc::new(()))
        })
    }

    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        (): &'a (),
        asks: bool,
    ) -> BoxFuture<'a, Result<(), End>> {
        Box::pin(async move {
            if !asks {
                return Ok(());
            }
            match self.look(transport, process).await {
                // A Redis that refuses this answers no check either, and says why: but for missing rights.
                Err(StoreError::Refused { doubt, .. }) if doubt != Doubt::Denied => Ok(()),
                looked => looked.map_err(End::from),
            }
        })
    }
}
