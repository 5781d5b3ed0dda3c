//! What a connection learns when it joins the filter's metadata.

use std::time::Duration;

use arc_swap::ArcSwap;

use crate::id::Digester;
use crate::store::link::{connection, supervised};
use crate::store::redis::fleet::Fleet;

/// A connection that has joined the filter's metadata.
pub(crate) type Connection = connection::Connection<Identity>;
/// What keeps such connections open.
pub(crate) type Link = supervised::Link<Identity>;

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
    /// What the metadata say of the fleet, as they were last looked at on this connection.
    pub(crate) fleet: ArcSwap<Fleet>,
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

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
    ) -> Arc<Connection> {
        let identity = Identity {
            digester: Digester::new(&SecretKey::new([7; 16]), "users"),
            incarnation: incarnation.to_vec(),
            age: Duration::ZERO,
            newest,
            fleet: ArcSwap::from_pointee(Fleet::fixed()),
        };
        connection(transport, run, identity)
    }
}
