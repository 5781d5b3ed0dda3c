//! Connects to the node of a Redis Cluster that serves a filter's slot.
//!
//! All keys of a filter are in one slot. Which node serves it is asked of the nodes that the URL names before a connection is made, and
//! once more before it is used: a primary that stood still while another was elected says for some milliseconds that it still
//! is one. After that the node itself tells: it answers commands for a slot that it does not serve with `MOVED`, whose
//! target is not followed, but looked for here. `ASK` is never followed: at its target, keys that have not arrived look absent.
//!
//! See <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

use std::fmt;
use std::io;
use std::sync::Arc;

use ::redis::{ConnectionInfo, cmd};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::timeout;

use super::named::{Names, Server};
use crate::error::{SettingError, StoreError};
use crate::random;
use crate::store::link::connector::{Access, CONNECT, Connector};
use crate::store::link::reply::{Reply, odd};
use crate::store::link::resp::Packed;
use crate::store::link::transport::{exchange, meaning};

/// How many nodes are asked at once.
const ASKED: usize = 3;
/// A map of 16,384 ranges with long names fits.
const MAP: usize = 8 << 20;
const SLOTS: &str = "CLUSTER SLOTS";
const NOBODY: &str = "no node of the cluster says where the filter is";

/// A Redis Cluster, as its URL names it.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(super) named: Vec<Server>,
    /// How to connect to a node, wherever it is.
    pub(super) redis: ConnectionInfo,
    pub(super) access: Access,
    pub(crate) dial: Dial,
}

/// Returns a connector to a node, with all but the address as in the URL.
pub(crate) type Dial = fn(&Server, &ConnectionInfo, &Access) -> Arc<dyn Connector>;

/// Which node serves the slot of each key, as a node says.
type Map = Vec<Option<Server>>;

/// Which nodes serve the slots of some keys. As a connector it leads to the last key's node.
pub(crate) struct Slots {
    pub(super) cluster: Arc<Cluster>,
    pub(super) keys: Box<dyn Fn() -> Vec<Arc<str>> + Send + Sync>,
}

impl Cluster {
    pub(super) fn with(&self, access: &Access) -> Result<Self, SettingError> {
        access.judge(&self.redis)?;
        Ok(Self { access: access.clone(), ..self.clone() })
    }

    fn dial(&self, node: &Server) -> Arc<dyn Connector> {
        (self.dial)(node, &self.redis, &self.access)
    }
}

impl Names for Slots {
    const OF_A_CLUSTER: bool = true;

    async fn primary(&self) -> io::Result<Server> {
        self.primaries().await?.pop().flatten().ok_or_else(|| nowhere(NOBODY))
    }

    fn dial(&self, server: &Server) -> Arc<dyn Connector> {
        self.cluster.dial(server)
    }
}

impl Slots {
    /// Asks some of the nodes that the URL names which nodes serve the keys' slots, all at once. Most decide: a node that is cut off
    /// from the others goes on to name itself, and may be the quickest. Without a majority chance does, and so it does of the nodes
    /// behind one name. Fails if none of them knows a node for any key.
    pub(crate) async fn primaries(&self) -> io::Result<Map> {
        let keys = (self.keys)();
        if keys.is_empty() {
            return Err(nowhere("no shard is on this node any more"));
        }
        // Beforehand: nodes are given less time.
        self.cluster.access.credentials().await?;
        let mut nodes = self.cluster.named.clone();
        nodes.sort_by_cached_key(|_| random::scatter());
        nodes.truncate(ASKED);
        self.cluster.ask_some(&nodes, &keys).await
    }
}

impl Cluster {
    async fn ask_some(&self, nodes: &[Server], keys: &[Arc<str>]) -> io::Result<Map> {
        let ask = async |(number, node)| {
            let late = StoreError::late(CONNECT);
            let map = timeout(CONNECT, self.ask(node, keys)).await.unwrap_or(Err(late));
            (number, map.map_err(|error| format!("{node}: {error}")))
        };
        let mut asked: FuturesUnordered<_> = nodes.iter().enumerate().map(ask).collect();
        // In the order of asking: if two are at odds, the quicker one does not decide.
        let mut maps = vec![None; nodes.len()];
        let mut said = Vec::new();
        while let Some((number, map)) = asked.next().await {
            match map {
                Ok(map) => maps[number] = Some(map),
                Err(error) => said.push(error),
            }
            let most = named_by(&maps, maps.len() / 2 + 1);
            if let Some(most) = most.filter(|most| most.iter().all(Option::is_some)) {
                return Ok(most);
            }
        }
        named_by(&maps, 1).ok_or_else(|| nowhere(&format!("{NOBODY}: {}", said.join("; "))))
    }

    async fn ask(&self, node: &Server, keys: &[Arc<str>]) -> Result<Map, StoreError> {
        let transport = self.dial(node).connect().await.map_err(|error| meaning(&error))?;
        let slots = keys.iter().map(|key| cmd("CLUSTER").arg("KEYSLOT").arg(&**key).clone());
        let commands = slots.chain([cmd("CLUSTER").arg("SLOTS").clone()]);
        let packed = Packed::from_iter(commands).for_long_replies(MAP);
        let mut replies = exchange(&*transport, packed, CONNECT).await?;
        let ranges = replies.pop().unwrap_or_default();
        let slot = |reply| Reply::new("CLUSTER KEYSLOT", reply).int();
        let slots = replies.into_iter().map(slot).collect::<Result<Vec<_>, _>>()?;
        read_map(&slots, Reply::new(SLOTS, ranges), node)
    }
}

fn nowhere(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, reason)
}

/// Returns for each key the node that most maps name, and `least` at least; the first of several. None without any map.
fn named_by(maps: &[Option<Map>], least: usize) -> Option<Map> {
    let keys = maps.iter().flatten().map(Vec::len).next()?;
    let named = |key: usize| {
        let names = || maps.iter().flatten().filter_map(move |map| map.get(key)?.as_ref());
        let votes = |node: &Server| names().filter(|name| *name == node).count();
        let most = names().map(votes).max().filter(|most| *most >= least)?;
        names().find(|node| votes(node) == most).cloned()
    };
    Some((0..keys).map(named).collect())
}

/// Reads a map. In each range the primary stands before the replicas. Fails if no node serves any of the slots.
fn read_map(slots: &[i64], ranges: Reply, asked: &Server) -> Result<Map, StoreError> {
    let mut map = vec![None; slots.len()];
    for range in ranges.array()? {
        let mut fields = range.array()?.into_iter();
        let (Some(first), Some(last)) = (fields.next(), fields.next()) else {
            return Err(odd(SLOTS, "a range without an end"));
        };
        let range = first.int()?..=last.int()?;
        let serving = slots.iter().zip(&mut map).filter(|(slot, _)| range.contains(slot));
        let mut serving = serving.map(|(_, serving)| serving).peekable();
        if serving.peek().is_some()
            && let Some(node) = fields.next()
        {
            let node = read_node(node, asked)?;
            serving.for_each(|serving| *serving = Some(node.clone()));
        }
    }
    if map.iter().all(Option::is_none) {
        return Err(odd(
            SLOTS,
            format!("no node for slot {}", slots.first().copied().unwrap_or(-1)),
        ));
    }
    Ok(map)
}

/// Reads a node's address. A node without a host is the one that was asked.
fn read_node(node: Reply, asked: &Server) -> Result<Server, StoreError> {
    let mut fields = node.array()?.into_iter();
    let (Some(host), Some(port)) = (fields.next(), fields.next()) else {
        return Err(odd(SLOTS, "a node without a port"));
    };
    let host = if host.is_nil() { String::new() } else { host.text()? };
    let port = port.int()?;
    Ok(Server {
        host: if host.is_empty() { asked.host.clone() } else { host },
        port: u16::try_from(port).map_err(|_| odd(SLOTS, format!("the port {port}")))?,
    })
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<_> = self.named.iter().map(ToString::to_string).collect();
        write!(f, "the cluster of {}", named.join(", "))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::time::Duration;

    use ::redis::{IntoConnectionInfo, RedisResult, Value};
    use futures_util::FutureExt;
    use tokio::time::sleep;

    use super::*;
    use crate::store::BoxFuture;
    use crate::store::link::resp::tests::values;
    use crate::store::link::transport::Transport;
    use crate::store::map::named::Named;

    /// A node by whose map `node:` and this serves all slots; 0 refuses to say. It takes so long, or never answers.
    #[derive(Debug, Clone, Copy)]
    struct Node(u16, Option<Duration>);

    impl Transport for Node {
        fn send(&self, _: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
            let map =
                format!(":5\r\n*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$4\r\nnode\r\n:{}\r\n", self.0);
            let takes = self.1.unwrap_or(2 * CONNECT);
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused).into();
            let said = if self.0 == 0 { Err(refused()) } else { Ok(values(map.as_bytes())) };
            Box::pin(sleep(takes).map(|()| said))
        }
    }

    impl Connector for Node {
        fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
            Box::pin(ready(Ok(Arc::new(*self) as Arc<dyn Transport>)))
        }
    }

    /// A cluster whose nodes' ports say which one each names, and how long it takes for that.
    fn cluster(named: &[u16]) -> Arc<Cluster> {
        let redis = "redis://node".into_connection_info().unwrap();
        let node = |port: &u16| Server { host: "node".to_owned(), port: *port };
        let named = named.iter().map(node).collect();
        let dial: Dial = |server, _, _| {
            let takes = match server.port / 1000 {
                0 => Some(Duration::ZERO),
                1 => Some(CONNECT / 2),
                _ => None,
            };
            Arc::new(Node(server.port % 10, takes))
        };
        Arc::new(Cluster { named, redis, access: Access::default(), dial })
    }

    fn slots(cluster: Arc<Cluster>) -> Slots {
        Slots { cluster, keys: Box::new(|| vec![Arc::from("bg:{users}:bits")]) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_whose_map_is_wrong_leads_nobody_astray_where_others_know_better() {
        const SLOW: u16 = 1000;
        const SILENT: u16 = 3000;
        for (ports, expected) in [
            ([1, 12, 22], [2, 2, 2]),
            ([1, SLOW + 12, SLOW + 22], [2, 2, 2]),
            ([1, SILENT + 12, SLOW + 22], [1, 2, 2]),
            ([12, SILENT + 1, SLOW + 22], [2, 2, 2]),
            // Who is quick does not decide, but where the first asked is.
            ([1, 12, 23], [1, 2, 3]),
            ([1, SLOW + 12, SLOW + 23], [1, 2, 3]),
            ([10, SILENT + 22, SLOW + 32], [2, 2, 2]),
        ] {
            let slots = slots(cluster(&ports));
            for (first, expected) in expected.into_iter().enumerate() {
                let mut nodes = slots.cluster.named.clone();
                nodes.rotate_left(first);
                let named = slots.cluster.ask_some(&nodes, &(slots.keys)()).await;
                let named = named.unwrap().pop().flatten().unwrap();
                assert_eq!(named.port, expected, "{ports:?} from {first}");
            }
        }
        let nobody = slots(cluster(&[SILENT + 1])).primaries().await;
        let error = nobody.unwrap_err().to_string();
        assert!(
            error.contains("no node of the cluster says where the filter is: node:3001"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_to_a_node_that_is_not_named_once_more_is_replaced() {
        let another = "another primary is named: node:2, not node:1";
        for (port, replaced) in [(2, None), (1, Some(another))] {
            let to_slot = Named::by(slots(cluster(&[2])));
            let server = format!("node:{port}");
            assert_eq!(to_slot.replaced(Some(&server), false).await.as_deref(), replaced);
        }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn node(host: Option<&str>, port: i64) -> Value {
        Value::Array(vec![host.map_or(Value::Nil, text), Value::Int(port), text("id")])
    }

    /// What is made of ranges of which each has a first and a last slot, and nodes.
    fn named(slot: i64, ranges: Vec<(i64, i64, Vec<Value>)>) -> Result<String, String> {
        let ranges = ranges.into_iter().map(|(first, last, nodes)| {
            Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(nodes).collect())
        });
        let ranges = Reply::new("CLUSTER SLOTS", Value::Array(ranges.collect()));
        let asked = Server { host: "asked".to_owned(), port: 1 };
        let map = read_map(&[slot], ranges, &asked);
        map.map(|map| map.into_iter().flatten().map(|it| it.to_string()).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_node_of_the_slots_range_serves_it() {
        let ranges = || {
            let replica = node(Some("replica"), 9);
            vec![
                (0, 99, vec![node(Some("a"), 7), replica.clone()]),
                (100, 100, vec![node(Some("::1"), 8), replica]),
            ]
        };
        for (slot, expected) in [(0, "a:7"), (99, "a:7"), (100, "[::1]:8")] {
            assert_eq!(named(slot, ranges()).as_deref(), Ok(expected), "{slot}");
        }
        assert!(named(101, ranges()).unwrap_err().contains("no node for slot 101"));
    }

    #[test]
    fn a_node_that_says_not_where_it_is_is_the_one_that_was_asked() {
        for host in [None, Some("")] {
            assert_eq!(named(5, vec![(0, 99, vec![node(host, 7)])]).as_deref(), Ok("asked:7"));
        }
    }

    #[test]
    fn a_map_of_another_shape_names_nobody() {
        for (nodes, words) in [
            (vec![], "no node for slot 5"),
            (vec![Value::Array(vec![Value::Nil])], "a node without a port"),
            (vec![node(Some("a"), 65_536)], "the port 65536"),
            (vec![Value::Int(7)], "the integer 7"),
        ] {
            let error = named(5, vec![(0, 99, nodes)]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
