//! What a connection learns when it joins the filter's metadata.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::id::Digester;
use crate::store::link::supervised::LinkTrouble;
use crate::store::link::{connection, supervised};
use crate::store::redis::fleet::Fleet;

/// What a connection learnt when it joined the metadata of each shard, by number; or why it could not join one.
pub(crate) type Identities = Vec<Result<Arc<Identity>, LinkTrouble>>;
/// A connection that has done so.
pub(crate) type JoinedAll = connection::Connection<Identities>;
/// What keeps such connections open.
pub(crate) type Link = supervised::Link<Identities>;

/// A connection that has joined a shard's metadata.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The connection, which all shards of the node share.
    pub(crate) on: Arc<JoinedAll>,
    pub(crate) identity: Arc<Identity>,
}

impl Connection {
    /// Returns it for the shard of this number.
    ///
    /// # Errors
    ///
    /// Why that shard's metadata could not be joined.
    pub(crate) fn of(on: Arc<JoinedAll>, shard: usize) -> Result<Self, LinkTrouble> {
        match on.identity.get(shard).cloned() {
            Some(Ok(identity)) => Ok(Self { on, identity }),
            Some(Err(trouble)) => Err(trouble),
            None => Err(LinkTrouble::not_yet()),
        }
    }
}

/// What a connection learnt when it joined a shard's metadata.
pub(crate) struct Identity {
    pub(crate) digester: Digester,
    /// Random, and new whenever the metadata had to be created or lives on another Redis process. What
    /// was acknowledged in an earlier incarnation may be lost.
    pub(crate) incarnation: Vec<u8>,
    /// How old the incarnation was, at most.
    pub(crate) age: Duration,
    /// The last generation that had gone live; 0 if none had. None that is older is trusted.
    pub(crate) newest: i64,
    /// What the metadata say of the fleet, as they were last looked at on this connection.
    pub(crate) fleet: ArcSwap<Fleet>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::id::SecretKey;
    use crate::store::link::connection::tests::connection;
    use crate::store::link::transport::Transport;

    /// Returns a connection to a Redis process that sends by this transport, and has met this incarnation and the last generation
    /// that went live there.
    pub(crate) fn joined(
        transport: Arc<dyn Transport>,
        run: u32,
        incarnation: &[u8],
        newest: i64,
    ) -> Connection {
        let identity = Identity {
            digester: Digester::new(&SecretKey::new([7; 16]), "users"),
            incarnation: incarnation.to_vec(),
            age: Duration::ZERO,
            newest,
            fleet: ArcSwap::from_pointee(Fleet::fixed()),
        };
        let on = connection(transport, run, vec![Ok(Arc::new(identity))]);
        Connection::of(on, 0).unwrap()
    }
}
