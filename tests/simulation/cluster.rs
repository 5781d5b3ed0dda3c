//! A cluster: which of its nodes serves which shard, and what each node knows of that.
//!
//! A shard stands for its slot: the slot's number is the shard's. Node n answers at one address, whatever process is there.

use std::cell::Cell;
use std::collections::BTreeSet;

use redis::{ConnectionAddr, ConnectionInfo};

use crate::model::keyspace::{Bytes, Keyspace};
use crate::model::reply::Reply;
use crate::net::{Address, Net};
use crate::oracle;
use crate::shards;
use crate::store::link::connector::{Access, Connector};
use crate::store::map::endpoint::Endpoint;

/// The addresses of its nodes.
pub(crate) const NODES: [usize; 3] = [0, 1, 2];

/// What its nodes are called, for the eyes of the guard.
const HOST: &str = "node";
const PORT: usize = 7000;

thread_local! {
    static IS: Cell<bool> = const { Cell::new(false) };
}

/// Begins a run with a cluster or without.
pub(crate) fn begin(is: bool) {
    IS.set(is);
}

pub(crate) fn is() -> bool {
    IS.get()
}

/// What a node knows of its cluster.
#[derive(Debug, Clone)]
pub(crate) struct Map {
    /// Its own address; none of a replica, which serves nothing.
    pub(crate) here: Option<usize>,
    /// The address of the node that serves each shard.
    serving: Vec<usize>,
    /// The shards whose keys are on their way to another node.
    leaving: BTreeSet<u32>,
}

impl Map {
    /// What a node at an address knows as a run begins: shards go round.
    pub(crate) fn first(here: usize) -> Self {
        let serves = |shard: u32| NODES[shard as usize % NODES.len()];
        let serving = shards::all().into_iter().map(serves).collect();
        Self { here: Some(here), serving, leaving: BTreeSet::new() }
    }

    fn serves(&self, shard: u32) -> bool {
        self.here == self.serving.get(shard as usize).copied()
    }

    /// Why a command is not executed, or what it says of the cluster.
    pub(crate) fn answer(
        &self,
        words: &[&[u8]],
        is_alone: bool,
        keys: &mut Keyspace,
    ) -> Option<Reply> {
        if words[0] == b"CLUSTER" {
            return Some(match words[1] {
                b"KEYSLOT" => Reply::Int(shard_of(words[2]).into()),
                _ => self.slots(),
            });
        }
        let named = keys_of(words);
        let shard = shard_of(named.first()?);
        if named.iter().any(|key| shard_of(key) != shard) {
            oracle::violated("a command names keys of two slots".to_owned());
        }
        if is_alone {
            return Some(Reply::error("CLUSTERDOWN The cluster is down"));
        }
        if !self.serves(shard) {
            redirected();
            let at = self.serving.get(shard as usize).map_or(0, |at| PORT + at);
            return Some(Reply::Error(format!("MOVED {shard} {HOST}:{at}")));
        }
        if !self.leaving.contains(&shard) || named.iter().all(|key| keys.get(key).is_some()) {
            return None;
        }
        redirected();
        // What is not here may be there already, or be nowhere.
        Some(match named.len() {
            1 => Reply::Error(format!("ASK {shard} {HOST}:{PORT}")),
            _ => Reply::error("TRYAGAIN Multiple keys request during rehashing of slot"),
        })
    }

    /// A process that begins drops the keys that its node does not serve.
    pub(crate) fn begin_with(&self, keys: &mut Keyspace) {
        for shard in shards::all().into_iter().filter(|shard| !self.serves(*shard)) {
            drop_shard(keys, shard);
        }
    }

    fn slots(&self) -> Reply {
        let range = |(shard, at): (usize, &usize)| {
            let node = Reply::Array(vec![
                Reply::bulk(HOST),
                Reply::Int((PORT + at) as i64),
                Reply::bulk("id"),
            ]);
            Reply::Array(vec![Reply::Int(shard as i64), Reply::Int(shard as i64), node])
        };
        Reply::Array(self.serving.iter().enumerate().map(range).collect())
    }
}

fn redirected() {
    oracle::note(|findings| findings.redirected += 1);
}

/// The keys that a command of a client names.
fn keys_of<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let named = match words {
        [b"EVAL" | b"EVALSHA", _, count, rest @ ..] => {
            let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok());
            &rest[..count.unwrap_or(0)]
        }
        [_, rest @ ..] => rest,
        [] => &[],
    };
    named.iter().copied().filter(|word| word.starts_with(b"bg:{")).collect()
}

/// The shard of which a key is.
fn shard_of(key: &[u8]) -> u32 {
    let is_of = |shard: &u32| key.starts_with(shards::prefix(*shard).as_bytes());
    shards::all().into_iter().find(is_of).unwrap_or(0)
}

/// The guard's endpoint, as an instance has it.
pub(crate) fn endpoint(instance: usize) -> Endpoint {
    let nodes = NODES.map(|at| format!("{HOST}:{}", PORT + at)).join(",");
    let url = format!("redis+cluster://{instance}:password@{nodes}");
    dialled(&url)
}

/// The one server's endpoint, as an instance has it.
pub(crate) fn server(instance: usize) -> Endpoint {
    dialled(&format!("redis://{instance}:password@{HOST}:{PORT}"))
}

fn dialled(url: &str) -> Endpoint {
    let mut endpoint = Endpoint::parse(url).expect("a url");
    endpoint.dial = dial;
    endpoint
}

#[expect(clippy::needless_pass_by_value, reason = "as the crate's own takes it")]
fn dial(server: ConnectionInfo, _: Access) -> std::sync::Arc<dyn Connector> {
    let instance = server.redis_settings().username().and_then(|name| name.parse().ok());
    let ConnectionAddr::Tcp(_, port) = server.addr() else { panic!("{server:?} has a port") };
    let site = usize::from(*port) - PORT;
    std::sync::Arc::new(Address { instance: instance.expect("an instance"), site })
}

/// The address of the node that serves a shard; the filter's only one where there is no cluster.
pub(crate) fn site_of(net: &Net, shard: u32) -> usize {
    let serves = |at: &&usize| map(net, **at).is_some_and(|map| map.serves(shard));
    NODES.iter().find(serves).copied().unwrap_or(0)
}

/// The shards that the node at an address serves.
pub(crate) fn shards_at(net: &Net, site: usize) -> Vec<u32> {
    shards::all().into_iter().filter(|shard| site_of(net, *shard) == site).collect()
}

fn map(net: &Net, site: usize) -> Option<&Map> {
    net.nodes[net.primaries[site]].map.as_ref()
}

/// Looks at what the node at an address knows and has.
fn node<T>(net: &mut Net, site: usize, see: impl FnOnce(&mut Map, &mut Keyspace) -> T) -> T {
    let node = net.primaries[site];
    let node = &mut net.nodes[node];
    see(node.map.as_mut().expect("a cluster"), &mut node.keys)
}

/// Some keys of a shard go to another node, one at a time. What is asked of them there is not served yet.
pub(crate) fn begin_to_leave(net: &mut Net, shard: u32, to: usize) {
    let from = site_of(net, shard);
    if from == to {
        return;
    }
    drop_elsewhere(net, shard);
    node(net, from, |map, _| map.leaving.insert(shard));
    carry(net, (from, to), shard, |number| number % 2 == 0);
}

/// A shard is another node's, with all its keys: whether or not some have gone before. Only the two know so far.
pub(crate) fn leave(net: &mut Net, shard: u32, to: usize) {
    stay(net, shard);
    drop_elsewhere(net, shard);
    let from = site_of(net, shard);
    carry(net, (from, to), shard, |_| true);
    oracle::note(|findings| findings.carried += u64::from(from != to));
    for at in [from, to] {
        node(net, at, |map, _| map.serving[shard as usize] = to);
    }
}

/// The keys of a shard that are on their way come back.
pub(crate) fn stay(net: &mut Net, shard: u32) {
    let here = site_of(net, shard);
    if node(net, here, |map, _| map.leaving.remove(&shard)) {
        for at in NODES.into_iter().filter(|at| *at != here) {
            carry(net, (at, here), shard, |_| true);
        }
    }
}

/// Drops what nodes have kept of a shard that is not theirs.
fn drop_elsewhere(net: &mut Net, shard: u32) {
    let here = site_of(net, shard);
    for at in NODES.into_iter().filter(|at| *at != here) {
        node(net, at, |_, keys| drop_shard(keys, shard));
    }
}

fn drop_shard(keys: &mut Keyspace, shard: u32) {
    for key in of_shard(keys, shard) {
        keys.take(&key);
    }
}

fn of_shard(keys: &Keyspace, shard: u32) -> Vec<Bytes> {
    let prefix = shards::prefix(shard);
    keys.keys().into_iter().filter(|key| key.starts_with(prefix.as_bytes())).collect()
}

/// Carries those of a shard's keys over.
fn carry(net: &mut Net, (from, to): (usize, usize), shard: u32, which: impl Fn(usize) -> bool) {
    let all = node(net, from, |_, keys| of_shard(keys, shard));
    for (_, key) in all.into_iter().enumerate().filter(|(number, _)| which(*number)) {
        let slot = node(net, from, |_, keys| keys.take(&key));
        node(net, to, |_, keys| keys.put_back(&key, slot));
    }
}

/// A node is told of the wrong one. It is never itself: that would be two primaries.
pub(crate) fn lie(net: &mut Net, at: usize, shard: u32, to: usize) {
    if at != to && site_of(net, shard) != at {
        node(net, at, |map, _| map.serving[shard as usize] = to);
    }
}

/// Of the nodes that are wrong about a shard one may go on to be. Where most are, a process need not reach a new Redis in time to say
/// its inserts again, which is beyond the promise.
pub(crate) fn leave_one_wrong(net: &mut Net) {
    for shard in shards::all() {
        let right = site_of(net, shard);
        let is_wrong =
            |at: &usize| map(net, *at).is_some_and(|map| map.serving[shard as usize] != right);
        let wrong: Vec<usize> = NODES.into_iter().filter(is_wrong).skip(1).collect();
        for at in wrong {
            node(net, at, |map, _| map.serving[shard as usize] = right);
        }
    }
}

/// All nodes come to know which of them serves what.
pub(crate) fn gossip(net: &mut Net) {
    let serving: Vec<usize> = shards::all().into_iter().map(|shard| site_of(net, shard)).collect();
    for at in NODES {
        node(net, at, |map, _| map.serving.clone_from(&serving));
    }
}

/// Nothing is on its way any more, and all know.
pub(crate) fn heal(net: &mut Net) {
    if is() {
        shards::all().into_iter().for_each(|shard| stay(net, shard));
        gossip(net);
    }
}

/// Lets something befall the keys of these shards, on whatever nodes they are.
pub(crate) fn each_node(shards: &[u32], mut befall: impl FnMut(usize, &[u32])) {
    for at in NODES {
        let here = crate::net::with(|net| shards_at(net, at));
        let here: Vec<u32> = here.into_iter().filter(|shard| shards.contains(shard)).collect();
        befall(at, &here);
    }
}
