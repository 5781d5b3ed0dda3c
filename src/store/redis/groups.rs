//! Which shards are on which node. Shards on one node are a group, and share its session. In a cluster a group follows the slot of its
//! first shard.

use std::sync::Arc;

use tokio::sync::Notify;

use super::connection::RedisNode;
use super::incarnation::join_all::JoinAll;
use super::incarnation::known_shard::KnownShard;
use crate::settings::Settings;
use crate::store::link::node::Node;
use crate::store::map::cluster::Slots;
use crate::store::map::endpoint::Endpoint;

#[derive(Clone)]
pub(crate) struct Group {
    pub(super) node: Arc<RedisNode>,
    pub(super) join: Arc<JoinAll>,
}

pub(crate) struct Groups {
    endpoint: Endpoint,
    settings: Settings,
    shards: Arc<[Arc<KnownShard>]>,
    /// In a cluster of several shards.
    pub(super) slots: Option<Slots>,
    /// Notified where a shard has left its group.
    pub(super) elsewhere: Arc<Notify>,
    /// The groups at first: one for each server, or one for a cluster.
    pub(super) servers: Box<[Group]>,
}

impl Groups {
    pub(super) fn new(
        settings: &Settings,
        endpoints: &[Endpoint],
        shards: Arc<[Arc<KnownShard>]>,
    ) -> Self {
        let endpoint = endpoints[0].clone();
        let keys = shards.iter().map(|shard| shard.key()).collect();
        let slots = endpoint.slots(keys).filter(|_| shards.len() > 1);
        let settings = settings.clone();
        let elsewhere = Arc::default();
        let mut groups =
            Self { endpoint, settings, shards, slots, elsewhere, servers: Box::default() };
        let server = |(server, endpoint): (usize, &Endpoint)| {
            groups.group(endpoint, |number| match groups.slots {
                Some(_) => number == 0,
                None => number % endpoints.len() == server,
            })
        };
        groups.servers = endpoints.iter().enumerate().map(server).collect();
        groups
    }

    pub(super) fn of(&self, number: usize) -> Group {
        self.group(&self.endpoint, |other| other == number)
    }

    fn group(&self, endpoint: &Endpoint, is_here: impl Fn(usize) -> bool) -> Group {
        let shards = Arc::clone(&self.shards);
        let join =
            Arc::new(JoinAll::new(Arc::clone(&shards), is_here, Arc::clone(&self.elsewhere)));
        let joined = Arc::clone(&join);
        let connector =
            endpoint.connector(move || joined.first().map(|number| shards[number].key()));
        let handshake = Arc::clone(&join);
        let node = Arc::new(Node::new(connector, &self.settings, handshake));
        Group { node, join }
    }
}
