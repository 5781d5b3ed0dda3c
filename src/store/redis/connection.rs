//! A connection by which a shard is asked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Value;

use super::incarnation::identity::{Identities, Identity, JoinedAll, Link};
use crate::error::StoreError;
use crate::id::Digest;
use crate::store::Lookup;
use crate::store::link::node::Node;
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::script::Script;
use crate::store::link::supervised::LinkTrouble;
use crate::verdict::Doubt;

/// The Redis that shards are on.
pub(crate) type RedisNode = Node<Identities, Digest, Lookup>;
/// Which of its links.
pub(crate) type Which = fn(&RedisNode) -> &Arc<Link>;

/// All of them.
pub(crate) const LINKS: [Which; 3] = [|node| &node.checks, |node| &node.inserts, |node| &node.bulk];

/// A connection of a node's link, which all shards of the node share.
pub(crate) struct NodeConnection {
    /// The node it leads to. A shard may be on another one by now.
    pub(crate) node: Arc<RedisNode>,
    pub(crate) which: Which,
    pub(crate) on: Arc<JoinedAll>,
}

/// A connection that has joined a shard's metadata.
pub(crate) struct Connection {
    /// A batch has one for all its shards: threads would wait for each other at a count that all of them change.
    shared: Arc<NodeConnection>,
    shard: usize,
    pub(crate) identity: Arc<Identity>,
}

impl Deref for Connection {
    type Target = NodeConnection;

    fn deref(&self) -> &NodeConnection {
        &self.shared
    }
}

impl Connection {
    /// Returns a connection of a node's link for the shard of this number.
    pub(crate) fn of(
        node: Arc<RedisNode>,
        which: Which,
        on: Arc<JoinedAll>,
        shard: usize,
    ) -> Result<Self, LinkTrouble> {
        Self::by(Arc::new(NodeConnection { node, which, on }), shard)
    }

    /// Returns the same of a connection that is there.
    pub(crate) fn by(shared: Arc<NodeConnection>, shard: usize) -> Result<Self, LinkTrouble> {
        let identity = shared.on.identity.of(shard)?;
        Ok(Self { shared, shard, identity })
    }

    /// Returns the connection of a link of the same node, if there is one that has joined the same shard's metadata.
    pub(crate) fn beside(&self, which: Which) -> Option<Self> {
        let on = which(&self.node).current()?;
        Self::of(Arc::clone(&self.node), which, on, self.shard).ok()
    }

    pub(crate) fn link(&self) -> &Link {
        (self.which)(&self.node)
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.on.identity.is_joined(self.shard, &self.identity)
    }

    /// Gives up what was learnt of the shard, and of no other.
    pub(crate) fn leave(&self) {
        if self.is_joined() {
            let reason = "the shard's metadata or its data are not those the connection met";
            let doubt = Doubt::Disconnected;
            let reason = reason.to_owned();
            self.on.identity.is_not_joined(self.shard, LinkTrouble { doubt, reason });
        }
    }

    pub(crate) async fn ask(
        &self,
        commands: impl Into<Packed>,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        self.link().ask(&self.on, commands, deadline).await
    }

    pub(crate) async fn script(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        self.link().script(&self.on, script, keys, args, deadline).await
    }
}

#[cfg(test)]
pub(crate) mod tests;
