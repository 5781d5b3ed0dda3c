//! Connects to the node of a Redis Cluster that serves a filter's slot.
//!
//! All keys of a filter are in one slot. Which node serves it is asked of the nodes that are known, before a connection is made, and
//! once more before it is used: a primary that stood still while another was elected says for some milliseconds that it still
//! is one. After that the node itself tells: it answers commands for a slot that it does not serve with `MOVED`, whose
//! target is not followed, but looked for here. `ASK` is never followed: at its target what has not come yet looks as if it did
//! not exist.
//!
//! See <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ::redis::{ConnectionInfo, Pipeline, RedisResult, cmd};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::server::Server;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::connector::{CONNECT, Connector};
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::transport::{Transport, Trouble, exchange};

/// How long a node's word is good for all connections that are made: they are often lost together.
const FRESH: Duration = Duration::from_millis(100);
/// How long after a connection was made it is asked again where it should lead.
const SETTLED: Duration = Duration::from_millis(100);
/// How many nodes are asked in one attempt to connect. The next attempt goes on with others.
const ASKED: usize = 2;
/// How many nodes are remembered.
const KNOWN: usize = 64;

/// A Redis Cluster, as its URL names it.
pub(crate) struct Cluster {
    /// The nodes that the URL names.
    pub(super) named: Vec<Server>,
    /// How to connect to a node, wherever it is.
    pub(super) redis: ConnectionInfo,
}

/// Connects to the node that serves the slot of a key.
#[derive(Clone)]
pub(super) struct ToSlot {
    cluster: Arc<Cluster>,
    key: Arc<str>,
    map: Arc<Mutex<Map>>,
    /// How many nodes were asked so far.
    asked: Arc<AtomicUsize>,
}

/// What nodes have said.
#[derive(Default)]
struct Map {
    nodes: Vec<Server>,
    /// Which node serves the slot, and when that was said.
    primary: Option<(Server, Instant)>,
}

impl Cluster {
    pub(super) fn to_slot_of(self: &Arc<Self>, key: &str) -> ToSlot {
        let (map, asked) = (Arc::default(), Arc::default());
        ToSlot { cluster: Arc::clone(self), key: key.into(), map, asked }
    }
}

impl ToSlot {
    /// Returns the node that serves the slot, as another node said after a moment.
    ///
    /// # Errors
    ///
    /// What the nodes have said that were asked.
    async fn primary(&self, since: Instant) -> io::Result<Server> {
        let mut map = self.map.lock().await;
        if let Some((primary, at)) = &map.primary
            && *at >= since
        {
            return Ok(primary.clone());
        }
        let nodes: Vec<Server> = self.cluster.named.iter().chain(&map.nodes).cloned().collect();
        let mut said = Vec::new();
        for _ in 0..ASKED.min(nodes.len()) {
            let node = &nodes[self.asked.fetch_add(1, Ordering::Relaxed) % nodes.len()];
            let at = Instant::now();
            let late = StoreError::Timeout { deadline: CONNECT };
            match timeout(CONNECT, self.ask(node)).await.unwrap_or(Err(late)) {
                Ok((primary, others)) => {
                    map.nodes = others;
                    map.primary = Some((primary.clone(), at));
                    return Ok(primary);
                }
                Err(error) => said.push(format!("{node}: {error}")),
            }
        }
        let text = format!("no node of the cluster says where the filter is: {}", said.join("; "));
        Err(io::Error::new(io::ErrorKind::NotConnected, text))
    }

    /// Asks a node which one serves the slot, and which others there are.
    async fn ask(&self, node: &Server) -> Result<(Server, Vec<Server>), StoreError> {
        let transport = node.address(&self.cluster.redis).connect().await.map_err(Trouble::from)?;
        let mut commands = Pipeline::new();
        commands.add_command(cmd("CLUSTER").arg("KEYSLOT").arg(&*self.key).clone());
        commands.add_command(cmd("CLUSTER").arg("SLOTS").clone());
        let replies = exchange(&*transport, &commands, CONNECT).await?;
        let mut replies = replies.into_iter().map(|reply| Reply::new("CLUSTER SLOTS", reply));
        let (Some(slot), Some(ranges)) = (replies.next(), replies.next()) else {
            return Err(odd("fewer replies than commands".to_owned()));
        };
        serving(slot.int()?, ranges, node)
    }
}

/// Reads which node serves a slot, and which others there are.
fn serving(slot: i64, ranges: Reply, asked: &Server) -> Result<(Server, Vec<Server>), StoreError> {
    let (mut primary, mut others) = (None, Vec::new());
    for range in ranges.array()? {
        let mut range = range.array()?.into_iter();
        let (Some(first), Some(last)) = (range.next(), range.next()) else {
            return Err(odd("a range without an end".to_owned()));
        };
        let is_ours = (first.int()?..=last.int()?).contains(&slot);
        for (index, node) in range.enumerate() {
            let node = read_node(node, asked)?;
            if is_ours && index == 0 {
                primary = Some(node.clone());
            }
            if others.len() < KNOWN && !others.contains(&node) {
                others.push(node);
            }
        }
    }
    let primary = primary.ok_or_else(|| odd(format!("no node for slot {slot}")))?;
    Ok((primary, others))
}

/// Reads where a node is. One that does not say is the one that was asked.
fn read_node(node: Reply, asked: &Server) -> Result<Server, StoreError> {
    let mut fields = node.array()?.into_iter();
    let (Some(host), Some(port)) = (fields.next(), fields.next()) else {
        return Err(odd("a node without a port".to_owned()));
    };
    let host = match host.optional_bytes()? {
        Some(host) if host != b"" && host != b"?" => {
            String::from_utf8(host).map_err(|_| odd("a host that is no text".to_owned()))?
        }
        _ => asked.host.clone(),
    };
    let port = port.int()?;
    let port = u16::try_from(port).map_err(|_| odd(format!("the port {port}")))?;
    Ok(Server { host, port })
}

fn odd(answer: String) -> StoreError {
    StoreError::Odd { step: "CLUSTER SLOTS", answer }
}

impl Connector for ToSlot {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(async move {
            let now = Instant::now();
            let server = self.primary(now.checked_sub(FRESH).unwrap_or(now)).await?;
            let transport = server.address(&self.cluster.redis).connect().await?;
            let made = Instant::now();
            let (to_slot, is_confirmed) = (self.clone(), AtomicBool::new(false));
            Ok(Arc::new(ToNode { transport, server, to_slot, made, is_confirmed })
                as Arc<dyn Transport>)
        })
    }
}

/// A connection to a node that was named as the one that serves the slot.
struct ToNode {
    transport: Arc<dyn Transport>,
    server: Server,
    to_slot: ToSlot,
    made: Instant,
    /// Whether it was named a second time.
    is_confirmed: AtomicBool,
}

impl Transport for ToNode {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
        self.transport.send(packed)
    }

    fn is_to_a_cluster(&self) -> bool {
        true
    }

    fn replaced(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            if self.is_confirmed.load(Ordering::Relaxed) {
                return None;
            }
            sleep(SETTLED).await;
            let is = &self.server;
            let named = match self.to_slot.primary(self.made + SETTLED).await {
                Ok(named) => named,
                Err(error) => return Some(error.to_string()),
            };
            if named != *is {
                return Some(format!(
                    "the filter's slot is served by another node: {named}, not {is}"
                ));
            }
            self.is_confirmed.store(true, Ordering::Relaxed);
            None
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<_> = self.named.iter().map(ToString::to_string).collect();
        write!(f, "the cluster of {}", named.join(", "))
    }
}

impl fmt::Debug for ToSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}
