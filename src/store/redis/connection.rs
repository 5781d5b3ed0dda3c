//! A connection by which a shard is asked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::incarnation::identity::{Identities, Identity, JoinedAll};
use crate::error::StoreError;
use crate::id::Digest;
use crate::store::link::node::Node;
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::link::supervised::LinkTrouble;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Made with the session's secret key.
    pub(crate) digest: Digest,
    pub(crate) by_copy: bool,
}

pub(crate) type RedisNode = Node<Identities, Asked>;

pub(crate) struct NodeSession {
    /// A shard may be on another node by now.
    pub(crate) node: Arc<RedisNode>,
    pub(crate) on: Arc<JoinedAll>,
}

/// A connection of a session that has joined a shard's metadata.
pub(crate) struct Connection {
    /// One for all shards of a batch: threads would wait for each other at a count that all of them change.
    shared: Arc<NodeSession>,
    purpose: Purpose,
    shard: usize,
    pub(crate) identity: Arc<Identity>,
}

impl Deref for Connection {
    type Target = NodeSession;

    fn deref(&self) -> &NodeSession {
        &self.shared
    }
}

impl Connection {
    pub(crate) fn of(
        shared: Arc<NodeSession>,
        purpose: Purpose,
        shard: usize,
    ) -> Result<Self, LinkTrouble> {
        let identity = shared.on.identity.of(shard)?;
        Ok(Self { shared, purpose, shard, identity })
    }

    pub(crate) fn is_joined(&self) -> bool {
        self.on.identity.is_joined(self.shard, &self.identity)
    }

    pub(crate) async fn ask(
        &self,
        step: &'static str,
        command: impl Into<Packed>,
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        let reply = self.send(1, command.into(), deadline).await?.pop();
        Ok(Reply::new(step, reply.unwrap_or(Value::Nil)))
    }

    pub(crate) async fn send(
        &self,
        callers: usize,
        packed: Packed,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        self.node.link.ask(callers, self.purpose, &self.on, packed, deadline).await
    }

    pub(crate) async fn script(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        let send = |command: Cmd| self.ask(script.name(), command, deadline);
        script.run(self.on.process.major, keys, args, send).await
    }
}

#[cfg(test)]
pub(crate) mod tests;
