//! A cluster of the test's own, on loopback, stopped on drop.

use std::time::Duration;

use crate::doors::{Doors, source_of};
use crate::traffic::PATIENCE;
use redis::{FromRedisValue, Value};
use support::eventually;
use support::redis_server::RedisServer;

const PRIMARIES: usize = 3;

/// Three primaries, and behind each a replica: node 3 is that of node 0.
pub struct Nodes {
    pub each: Vec<RedisServer>,
    /// By what others reach them, where nodes are to be cut off or slow.
    pub doors: Option<Doors>,
    /// The slot of the filter "users", or of its first shard.
    pub slot: String,
}

impl Nodes {
    /// Starts a cluster whose nodes are given up after a silence, and waits until it serves.
    pub async fn start(timeout: Duration, full_coverage: bool, shards: u32) -> Self {
        let nodes = Self::launch(timeout, full_coverage, shards);
        nodes.form().await;
        nodes
    }

    /// Starts one whose nodes can be cut off from each other, or be slow.
    pub async fn start_behind_doors(timeout: Duration, shards: u32) -> Self {
        let nodes = Self::launch(timeout, true, shards).behind_doors().await;
        nodes.form().await;
        nodes
    }

    fn launch(timeout: Duration, full_coverage: bool, shards: u32) -> Self {
        let coverage = if full_coverage { "yes" } else { "no" };
        let timeout = timeout.as_millis().to_string();
        let start = |_| {
            RedisServer::with(&[
                &["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout],
                &["--cluster-require-full-coverage", coverage, "--repl-diskless-sync", "yes"][..],
                &["--repl-diskless-sync-delay", "0"],
            ]
            .concat())
        };
        let each: Vec<_> = (0..2 * PRIMARIES).map(start).collect();
        let key = if shards > 1 {
            format!("bg:{{users#0/{shards}}}:bits")
        } else {
            "bg:{users}:bits".to_owned()
        };
        let slot: i64 = each[0].run(&["CLUSTER", "KEYSLOT", &key]);
        Self { each, doors: None, slot: slot.to_string() }
    }

    /// Puts doors before them. A node tells others the ports of its own.
    async fn behind_doors(mut self) -> Self {
        let doors = Doors::open(self.each.iter().map(RedisServer::port)).await;
        for (index, (node, [port, bus])) in self.each.iter().zip(&doors.ports).enumerate() {
            for (setting, value) in [
                ("bind-source-addr", source_of(index)),
                ("cluster-announce-ip", "127.0.0.1".to_owned()),
                ("cluster-announce-port", port.to_string()),
                ("cluster-announce-bus-port", bus.to_string()),
            ] {
                node.run::<()>(&["CONFIG", "SET", setting, &value]);
            }
        }
        self.doors = Some(doors);
        self
    }

    /// The port by which others reach a node.
    pub fn port(&self, node: usize) -> u16 {
        self.doors.as_ref().map_or(self.each[node].port(), |doors| doors.ports[node][0])
    }

    /// Makes them a cluster, and waits until it serves.
    async fn form(&self) {
        for (index, node) in self.each[..PRIMARIES].iter().enumerate() {
            node.serves_part(index, PRIMARIES);
        }
        for node in &self.each[1..] {
            let port = self.port(0).to_string();
            let mut words = vec!["CLUSTER", "MEET", "127.0.0.1", &port];
            let bus = self.doors.as_ref().map(|doors| doors.ports[0][1].to_string());
            words.extend(bus.as_deref());
            node.run::<()>(&words);
        }
        for node in 0..self.each.len() {
            self.reports(node, &["CLUSTER", "INFO"], "cluster_known_nodes:6").await;
        }
        for index in PRIMARIES..self.each.len() {
            let id: String = self.each[index - PRIMARIES].run(&["CLUSTER", "MYID"]);
            eventually("a replica knows its primary", PATIENCE, || async {
                let said = self.each[index].try_run::<()>(&["CLUSTER", "REPLICATE", &id]);
                said.map_err(|error| error.to_string())
            })
            .await;
        }
        for node in 0..self.each.len() {
            self.reports(node, &["CLUSTER", "INFO"], "cluster_state:ok").await;
        }
        for index in PRIMARIES..self.each.len() {
            self.reports(index, &["INFO", "replication"], "master_link_status:up").await;
            let primary = index - PRIMARIES;
            self.reports(primary, &["INFO", "replication"], "state=online").await;
        }
    }

    /// Waits until a node says so.
    pub async fn reports(&self, node: usize, words: &[&str], expected: &str) {
        eventually(expected, PATIENCE, || async {
            let said = self.each[node].try_run(words);
            let said: String = said.map_err(|error| error.to_string())?;
            if said.contains(expected) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Which node serves the filter's slot, as another one says.
    pub fn primary(&self, asked: usize) -> Option<usize> {
        let slot: i64 = self.slot.parse().unwrap();
        let ranges: Vec<Vec<Value>> = self.each[asked].try_run(&["CLUSTER", "SLOTS"]).ok()?;
        let number = |value: &Value| i64::from_redis_value_ref(value).unwrap();
        let range = ranges.iter().find(|it| (number(&it[0])..=number(&it[1])).contains(&slot))?;
        let Value::Array(node) = &range[2] else { panic!("{range:?}") };
        let port = u16::try_from(number(&node[1])).unwrap();
        (0..self.each.len()).find(|node| self.port(*node) == port)
    }

    pub fn id(&self, node: usize) -> String {
        self.each[node].run(&["CLUSTER", "MYID"])
    }

    /// Begins to move the slot: both ends know, and no key has gone.
    pub fn begin_move(&self, from: usize, to: usize) {
        let (source, target) = (self.id(from), self.id(to));
        self.each[to].run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", &source]);
        self.each[from].run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", &target]);
    }

    /// The slot's keys at a node: those of the filter first, then nulls.
    fn keys(&self, node: usize) -> Vec<String> {
        let words = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "1000000"];
        let mut keys: Vec<String> = self.each[node].run(&words);
        keys.sort_by_key(|key| key.contains(":null:"));
        keys
    }

    /// Moves a key.
    pub fn move_key(&self, from: usize, to: usize, key: &str) {
        let port = self.each[to].port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000", "REPLACE"];
        self.each[from].run::<()>(&words);
    }

    /// Moves the slot's keys, until there is none.
    pub fn move_keys(&self, from: usize, to: usize) {
        loop {
            let keys = self.keys(from);
            if keys.is_empty() {
                return;
            }
            keys.iter().for_each(|key| self.move_key(from, to, key));
        }
    }

    /// Ends a move: the slot is another node's.
    pub fn end_move(&self, from: usize, to: usize) {
        let target = self.id(to);
        let rest = (0..PRIMARIES).filter(|node| *node != to && *node != from);
        for node in [to, from].into_iter().chain(rest) {
            let said =
                self.each[node].try_run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &target]);
            said.unwrap_or_else(|error| panic!("node {node}: {error}"));
        }
    }
}
