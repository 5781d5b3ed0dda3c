//! A connection by which a shard is asked, and what its session learnt when it joined the shards' metadata.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};
use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::fleet::Fleet;
use crate::error::StoreError;
use crate::id::{Digest, Digester};
use crate::store::link::node::Node;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::script::Script;
use crate::store::link::session::{Purpose, Session};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Made with the session's secret key.
    pub(crate) digest: Digest,
    pub(crate) may_fence: bool,
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
    ) -> Result<Self, StoreError> {
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
        let reply = self.send(command.into(), deadline).await?.pop();
        Ok(Reply::new(step, reply.unwrap_or(Value::Nil)))
    }

    pub(crate) async fn send(
        &self,
        packed: Packed,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let said = self.node.link.ask(self.purpose, &self.on, packed, deadline).await;
        said.inspect_err(|error| {
            if serves_no_slot(error) {
                self.withdraw();
            }
        })
    }

    /// Has the shard joined anew: on the same session, where other shards share it, else on a new one. Where its node does not serve it,
    /// at once: the node may serve it again, without the inserts that came elsewhere.
    pub(crate) fn withdraw(&self) {
        if self.on.identity.0.len() == 1 {
            return self.node.link.withdraw(&self.on);
        }
        if self.is_joined() {
            let reason = "the shard's metadata or its data are not those the connection met";
            self.on.identity.note(self.shard, Err(StoreError::disconnected(reason)));
        }
        self.node.link.look_now();
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

/// What a session learnt of each shard, by number.
pub(crate) struct Identities(Box<[ArcSwap<Place>]>);

/// What a session learnt of one shard, or why it has not joined it.
type Place = Result<Arc<Identity>, StoreError>;

pub(crate) type JoinedAll = Session<Identities>;

impl Identities {
    pub(crate) fn none(shards: usize) -> Self {
        let place = |_| ArcSwap::from_pointee(Err(StoreError::not_yet()));
        Self((0..shards).map(place).collect())
    }

    pub(crate) fn of(&self, shard: usize) -> Place {
        (**self.0[shard].load()).clone()
    }

    /// Looks at the identity of a shard that is joined. Unlike [`of`](Self::of) it changes no count that all threads share.
    pub(crate) fn see<T>(&self, shard: usize, look: impl FnOnce(&Identity) -> T) -> Option<T> {
        self.0[shard].load().as_ref().as_ref().ok().map(|identity| look(identity))
    }

    pub(crate) fn is_joined(&self, shard: usize, identity: &Arc<Identity>) -> bool {
        matches!(&**self.0[shard].load(), Ok(now) if Arc::ptr_eq(now, identity))
    }

    pub(crate) fn note(&self, shard: usize, place: Result<Identity, StoreError>) {
        self.0[shard].store(Arc::new(place.map(Arc::new)));
    }
}

/// What a session learnt when it joined a shard's metadata.
pub(crate) struct Identity {
    pub(crate) digester: Digester,
    /// 16 random bytes.
    pub(crate) incarnation: Vec<u8>,
    /// How old the incarnation was at most, when it was joined.
    pub(crate) age: Duration,
    pub(crate) joined: Instant,
    /// The last generation that had gone live, or 0: no older one is trusted.
    pub(crate) newest: i64,
    /// What the metadata say of the fleet, as last read by this session.
    pub(crate) fleet: ArcSwap<Fleet>,
}

#[cfg(test)]
pub(crate) mod tests;
