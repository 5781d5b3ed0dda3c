//! Connections without a Redis, for these tests and others.

use std::collections::VecDeque;

use ::redis::RedisResult;
use parking_lot::Mutex;

use super::*;
use crate::id::SecretKey;
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::store::link::connector::Connector;
use crate::store::link::session::tests::session;
use crate::store::link::transport::Transport;
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::shards::Shards;

#[derive(Debug)]
struct NoConnector;

impl Connector for NoConnector {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(std::future::pending())
    }
}

/// Returns the shards of a filter whose Redis is never reached.
pub(crate) fn unreached(settings: &Settings) -> Shards {
    let mut endpoint = Endpoint::parse("redis://localhost").unwrap();
    endpoint.dial = |_, _| Arc::new(NoConnector);
    Shards::new(settings, &[endpoint])
}

/// Returns a connection to a Redis process that sends by this transport, and has met this incarnation and the last generation
/// that went live there.
pub(crate) fn joined(
    transport: Arc<dyn Transport>,
    run: u32,
    incarnation: &[u8],
    newest: i64,
) -> Connection {
    let shards = unreached(&Settings::new("users".into()));
    joined_by(&shards.all[0].node(), transport, run, incarnation, newest)
}

pub(crate) fn joined_by(
    node: &Arc<RedisNode>,
    transport: Arc<dyn Transport>,
    run: u32,
    incarnation: &[u8],
    newest: i64,
) -> Connection {
    let identity = || Identity {
        digester: Digester::new(&SecretKey::new([7; 16]), "users"),
        incarnation: incarnation.to_vec(),
        age: Duration::ZERO,
        joined: Instant::now(),
        newest,
        fleet: ArcSwap::from_pointee(Fleet::read(0, 0, Instant::now())),
    };
    let identities = Identities::none(2);
    (0..2).for_each(|shard| identities.note(shard, Ok(identity())));
    let node = Arc::clone(node);
    let on = session(transport, run, identities);
    Connection::of(Arc::new(NodeSession { node, on }), Purpose::Checks, 0).unwrap()
}

/// Returns the one shard of a filter whose Redis, of run 1, sends by this transport.
pub(crate) fn reached(transport: Arc<dyn Transport>) -> (Shards, Connection) {
    let there = joined(transport, 1, b"first", 0);
    there.node.link.put_into_use(&there.on);
    let shards = unreached(&Settings::new("users".into()));
    shards.all[0].move_to(Arc::clone(&there.node));
    (shards, there)
}

/// A Redis that gives these replies and then no more; where there is none, it is lost. It keeps what it was sent.
#[derive(Default)]
pub(crate) struct Scripted {
    replies: Mutex<VecDeque<Option<Value>>>,
    pub(crate) sent: Mutex<Vec<Packed>>,
}

impl Scripted {
    pub(crate) fn new(replies: impl IntoIterator<Item = Option<Value>>) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Self { replies, ..Self::default() })
    }
}

impl Transport for Scripted {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        self.sent.lock().push(packed);
        match self.replies.lock().pop_front().flatten() {
            Some(reply) => Box::pin(std::future::ready(Ok(vec![reply]))),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_connection_follows_a_shard_to_a_node_that_was_joined_before() {
    let shards = unreached(&Settings::new("users".into()));
    let shard = &shards.all[0];
    let there = joined(Scripted::new([]), 1, b"first", 0);
    there.node.link.put_into_use(&there.on);
    let waiting = shard.connected(Purpose::Inserts, Duration::from_secs(60));
    let moving = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        shard.move_to(Arc::clone(&there.node));
    };
    let begun = Instant::now();
    let (connected, ()) = tokio::join!(waiting, moving);
    assert!(Arc::ptr_eq(&connected.unwrap().node, &there.node));
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_insert_by_a_session_or_a_node_that_the_shard_has_left_is_not_acknowledged() {
    let shards = unreached(&Settings::new("users".into()));
    let shard = &shards.all[0];
    let own = joined(Scripted::new([]), 1, b"first", 0);
    let node = shard.node();
    node.link.put_into_use(&own.on);
    let inserts = Connection::of(
        Arc::new(NodeSession { node, on: Arc::clone(&own.on) }),
        Purpose::Inserts,
        0,
    )
    .unwrap();
    assert!(shard.is_on(&inserts));
    let other = joined(Scripted::new([]), 1, b"first", 0);
    shard.node().link.put_into_use(&other.on);
    assert!(!shard.is_on(&inserts), "in a later session they are repeated");
    shard.node().link.put_into_use(&own.on);
    assert!(shard.is_on(&inserts));
    shard.move_to(Arc::clone(&other.node));
    assert!(!shard.is_on(&inserts));
}
