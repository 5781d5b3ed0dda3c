//! One primary, one replica and three Sentinels of the test's own, on loopback, stopped on drop.

use std::time::Duration;

use crate::network::{Network, PEERS};
use crate::traffic::PATIENCE;
use support::eventually;
use support::redis_server::RedisServer;
use support::sentinel::Sentinel;

/// The name that the Sentinels know the primary by.
pub const NAME: &str = "users";

/// A redis-server whose peers reach it through a network of its own.
pub struct Node {
    pub server: RedisServer,
    pub network: Network,
}

impl Node {
    async fn start(arguments: &[&str]) -> Self {
        let network = Network::open().await;
        let port = network.port().to_string();
        let announced =
            ["--replica-announce-ip", "127.0.0.1", "--replica-announce-port", port.as_str()];
        let others = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
        // Whoever calls as a peer is told apart from the application by where it calls from.
        let from = PEERS.to_string();
        let peer = ["--bind-source-addr", from.as_str()];
        let server = RedisServer::with(&[&announced[..], &others, &peer, arguments].concat());
        network.lead_to(server.port());
        Self { server, network }
    }

    /// Waits until `INFO replication` says so; a server that changes its role closes connections.
    pub async fn reports(&self, words: &str) {
        eventually(words, PATIENCE, || async {
            let info = self.server.try_run(&["INFO", "replication"]);
            let info: String = info.map_err(|error| error.to_string())?;
            if info.contains(words) { Ok(()) } else { Err(info) }
        })
        .await;
    }
}

/// The servers. Sentinels are dropped first, lest they act on the end of the others.
pub struct Topology {
    pub sentinels: Vec<Sentinel>,
    pub old: Node,
    pub new: Node,
}

impl Topology {
    /// Starts the servers, the primary with arguments of its own, with the Sentinels' patience with a silent primary, and waits until a
    /// failover could begin.
    pub async fn start(arguments: &[&str], down_after: Duration) -> Self {
        let old = Node::start(arguments).await;
        let new = Node::start(&[]).await;
        let port = old.network.port();
        new.server.run::<()>(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
        new.reports("master_link_status:up").await;
        // Until then the primary keeps its changes to itself.
        old.reports("state=online").await;
        let source = format!("bind-source-addr {PEERS}");
        let peer = [source.as_str(), "sentinel announce-ip 127.0.0.1"];
        let start = || Sentinel::start(NAME, port, down_after, &peer);
        let sentinels: Vec<_> = (0..3).map(|_| start()).collect();
        for sentinel in &sentinels {
            sentinel.knows(1, 3).await;
        }
        Self { sentinels, old, new }
    }

    /// Returns the URL by which an instance asks the Sentinels.
    pub fn url(&self) -> String {
        let host = |sentinel: &Sentinel| format!("127.0.0.1:{}", sentinel.port());
        let hosts: Vec<_> = self.sentinels.iter().map(host).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// Whether two Sentinels name the replica.
    pub fn is_promoted(&self) -> bool {
        let names = |sentinel: &&Sentinel| {
            let named = sentinel.run(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
            named.is_ok_and(|(_, port): (String, u16)| port == self.new.network.port())
        };
        self.sentinels.iter().filter(names).count() >= 2
    }
}
