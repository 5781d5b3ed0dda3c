//! What is done first on each connection, and once a second after that.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::trust::Trust;
use crate::error::StoreError;
use crate::id::{Digester, SecretKey};
use crate::store::BoxFuture;
use crate::store::redis::fleet::Fleet;
use crate::store::redis::link::handshake::{End, Handshake, Identity};
use crate::store::redis::link::process::RedisProcess;
use crate::store::redis::link::wire::Wire;
use crate::verdict::Doubt;

/// Connections that check look at the filter; those that only write do not.
pub(super) struct Looks(pub(super) Option<Arc<Trust>>);

impl Looks {
    async fn look(&self, wire: &dyn Wire, process: &RedisProcess) -> Result<(), StoreError> {
        let Some(trust) = &self.0 else { return Ok(()) };
        trust.look(wire, process).await
    }
}

impl Handshake for Looks {
    fn join<'a>(
        &'a self,
        wire: &'a dyn Wire,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<Identity>, StoreError>> {
        Box::pin(async move {
            self.look(wire, process).await?;
            // A foreign filter has no metadata of ours to join, and its ids are not hashed with a key.
            Ok(Arc::new(Identity {
                digester: Digester::new(&SecretKey::new([0; 16]), ""),
                incarnation: Vec::new(),
                age: Duration::ZERO,
                newest: 0,
                process: process.clone(),
                fleet: ArcSwap::from_pointee(Fleet::fixed()),
            }))
        })
    }

    fn recheck<'a>(
        &'a self,
        wire: &'a dyn Wire,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<(), End>> {
        Box::pin(async move {
            match self.look(wire, &identity.process).await {
                // A Redis that refuses this answers no check either, and says why: but for missing rights.
                Err(StoreError::Refused { doubt, .. }) if doubt != Doubt::Denied => Ok(()),
                looked => looked.map_err(End::from),
            }
        })
    }
}
