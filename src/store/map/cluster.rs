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

use ::redis::cmd;
use futures_util::future::join_all;
use tokio::time::timeout;

use super::endpoint::{Endpoint, Server};
use super::named::Names;
use crate::error::StoreError;
use crate::random;
use crate::store::link::connector::CONNECT;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::resp::Packed;
use crate::store::link::transport::{exchange, meaning};

const ASKED: usize = 3;
/// A map of 16,384 ranges with long names fits.
const MAP: usize = 8 << 20;
const SLOTS: &str = "CLUSTER SLOTS";
const NOBODY: &str = "no node of the cluster says where the filter is";

/// Which node serves the slot of each key, as a node says.
type Map = Vec<Option<Server>>;

/// Which nodes serve the slots of some keys. As a connector it leads to the last key's node.
pub(crate) struct Slots {
    pub(super) endpoint: Endpoint,
    /// The nodes that the URL names.
    pub(super) nodes: Vec<Server>,
    pub(super) keys: Box<dyn Fn() -> Vec<Arc<str>> + Send + Sync>,
}

impl Names for Slots {
    const OF_A_CLUSTER: bool = true;

    async fn primary(&self) -> io::Result<Server> {
        self.primaries().await?.pop().flatten().ok_or_else(|| nowhere(NOBODY))
    }
}

impl Slots {
    /// Asks some of the nodes that the URL names which nodes serve the keys' slots, all at once. Most of those that answer decide: a
    /// node that is cut off from the others goes on to name itself. Where as many name another, chance does, and so it does of the
    /// nodes behind one name. Fails if none of them knows a node for any key.
    pub(crate) async fn primaries(&self) -> io::Result<Map> {
        let keys = (self.keys)();
        if keys.is_empty() {
            return Err(nowhere("no shard is on this node any more"));
        }
        // Beforehand: nodes are given less time.
        self.endpoint.access.credentials().await?;
        let mut nodes = self.nodes.clone();
        nodes.sort_by_cached_key(|_| random::scatter());
        nodes.truncate(ASKED);
        self.ask_some(&nodes, &keys).await
    }

    async fn ask_some(&self, nodes: &[Server], keys: &[Arc<str>]) -> io::Result<Map> {
        let ask = async |node: &Server| {
            let late = StoreError::late(CONNECT);
            let map = timeout(CONNECT, self.ask(node, keys)).await.unwrap_or(Err(late));
            map.map_err(|error| format!("{node}: {error}"))
        };
        let (maps, said): (Vec<_>, Vec<_>) =
            join_all(nodes.iter().map(ask)).await.into_iter().partition(Result::is_ok);
        let maps: Vec<Map> = maps.into_iter().flatten().collect();
        let said: Vec<String> = said.into_iter().filter_map(Result::err).collect();
        most_named(&maps).ok_or_else(|| nowhere(&format!("{NOBODY}: {}", said.join("; "))))
    }

    async fn ask(&self, node: &Server, keys: &[Arc<str>]) -> Result<Map, StoreError> {
        let transport =
            self.endpoint.dial(node).connect().await.map_err(|error| meaning(&error))?;
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

/// Returns for each key the node that most maps name; the first of several. None without any map.
fn most_named(maps: &[Map]) -> Option<Map> {
    let named = |key: usize| {
        let names = || maps.iter().filter_map(move |map| map[key].as_ref());
        let votes = |node: &Server| names().filter(|name| *name == node).count();
        let most = names().map(votes).max();
        names().find(|node| Some(votes(node)) == most).cloned()
    };
    Some((0..maps.first()?.len()).map(named).collect())
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
        let Some(node) = fields.next() else { continue };
        let node = read_node(node, asked)?;
        for (slot, serving) in slots.iter().zip(&mut map) {
            if range.contains(slot) {
                *serving = Some(node.clone());
            }
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
    let host = if host.is_empty() { asked.host.clone() } else { host };
    Ok(Server { host, port: port.port()? })
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(ToString::to_string).collect();
        write!(f, "the cluster of {}", nodes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::time::Duration;

    use ::redis::{ConnectionAddr, RedisResult, Value};
    use futures_util::FutureExt;
    use tokio::time::sleep;

    use super::*;
    use crate::store::BoxFuture;
    use crate::store::link::connector::Connector;
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
    fn slots(ports: &[u16]) -> Slots {
        let nodes: Vec<_> = ports.iter().map(|port| format!("node:{port}")).collect();
        let mut endpoint =
            Endpoint::parse(&format!("redis+cluster://{}", nodes.join(","))).unwrap();
        endpoint.dial = |server, _| {
            let ConnectionAddr::Tcp(_, port) = server.addr() else { unreachable!("no TLS") };
            let takes = match port / 1000 {
                0 => Some(Duration::ZERO),
                1 => Some(CONNECT / 2),
                _ => None,
            };
            Arc::new(Node(port % 10, takes))
        };
        endpoint.slots([Arc::from("bg:{users}:bits")].into()).unwrap()
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
            let slots = slots(&ports);
            for (first, expected) in expected.into_iter().enumerate() {
                let mut nodes = slots.nodes.clone();
                nodes.rotate_left(first);
                let named = slots.ask_some(&nodes, &(slots.keys)()).await;
                let named = named.unwrap().pop().flatten().unwrap();
                assert_eq!(named.port, expected, "{ports:?} from {first}");
            }
        }
        let nobody = slots(&[SILENT + 1]).primaries().await;
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
            let slots = slots(&[2]);
            let endpoint = slots.endpoint.clone();
            let to_slot = Named::by(slots, endpoint);
            let server = Server { host: "node".to_owned(), port };
            to_slot.server.store(Some(Arc::new(server)));
            assert_eq!(to_slot.replaced(false).await.as_deref(), replaced);
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
            (vec![node(Some("a"), 65_536)], "the integer 65536"),
            (vec![Value::Int(7)], "the integer 7"),
        ] {
            let error = named(5, vec![(0, 99, nodes)]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
