//! Which shards are on which node. On one Redis all are, on several those of every so-manieth number. In a cluster those whose slots one node serves are a group, and share its
//! session; a group follows the slot of its first shard wherever another node takes it over.

use std::sync::Arc;

use tokio::sync::Notify;

use super::connection::RedisNode;
use super::incarnation::join_all::JoinAll;
use super::incarnation::known_shard::KnownShard;
use crate::settings::Settings;
use crate::store::link::handshake::Handshake;
use crate::store::link::node::Node;
use crate::store::map::cluster::Slots;
use crate::store::map::endpoint::Endpoint;

/// The shards on one node.
#[derive(Clone)]
pub(crate) struct Group {
    pub(super) node: Arc<RedisNode>,
    pub(super) join: Arc<JoinAll>,
}

/// How groups are made.
pub(crate) struct Groups {
    endpoint: Endpoint,
    settings: Settings,
    shards: Arc<[Arc<KnownShard>]>,
    /// What tells where shards are, in a cluster.
    pub(super) slots: Option<Slots>,
    /// Notified where a shard has left its group.
    pub(super) elsewhere: Arc<Notify>,
    /// In which all shards are that have no other: one for each server, one for a cluster.
    pub(super) servers: Box<[Group]>,
}

impl Groups {
    pub(super) fn new(
        settings: &Settings,
        endpoints: &[Endpoint],
        shards: Arc<[Arc<KnownShard>]>,
    ) -> Self {
        let endpoint = &endpoints[0];
        let keys = shards.iter().map(|shard| shard.key()).collect();
        let slots = endpoint.slots(keys).filter(|_| shards.len() > 1);
        let elsewhere = Arc::<Notify>::default();
        let server = |(server, endpoint): (usize, &Endpoint)| {
            let is_here = |number| match slots {
                Some(_) => number == 0,
                None => number % endpoints.len() == server,
            };
            Group::new(settings, endpoint, &shards, is_here, &elsewhere)
        };
        let servers = endpoints.iter().enumerate().map(server).collect();
        let (endpoint, settings) = (endpoint.clone(), settings.clone());
        Self { endpoint, settings, shards, slots, elsewhere, servers }
    }

    /// Returns the node that a shard is on at first.
    pub(super) fn at_first(&self, number: usize) -> Arc<RedisNode> {
        Arc::clone(&self.servers[number % self.servers.len()].node)
    }

    /// Returns a group of one shard.
    pub(super) fn of(&self, number: usize) -> Group {
        let Self { endpoint, settings, shards, elsewhere, .. } = self;
        Group::new(settings, endpoint, shards, |other| other == number, elsewhere)
    }
}

impl Group {
    fn new(
        settings: &Settings,
        endpoint: &Endpoint,
        shards: &Arc<[Arc<KnownShard>]>,
        here: impl Fn(usize) -> bool,
        elsewhere: &Arc<Notify>,
    ) -> Self {
        let join = Arc::new(JoinAll::new(Arc::clone(shards), here, Arc::clone(elsewhere)));
        let (of, shards) = (Arc::clone(&join), Arc::clone(shards));
        let first = move || of.first().map(|number| shards[number].key());
        let connector = endpoint.connector(first);
        let handshake: Arc<dyn Handshake<_>> = Arc::clone(&join) as Arc<_>;
        let node = Arc::new(Node::new(connector, settings, handshake));
        Self { node, join }
    }
}
