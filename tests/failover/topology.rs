//! One primary, one replica and three Sentinels of the test's own, on loopback, stopped on drop.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::network::Network;
use support::eventually;
use support::redis_server::RedisServer;

/// The name that the Sentinels know the primary by.
pub const NAME: &str = "users";

/// The longest that any step may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
        let server = RedisServer::with(&[&announced, &others, arguments].concat());
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
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(port, down_after)).collect();
        for sentinel in &sentinels {
            sentinel.ready().await;
        }
        Self { sentinels, old, new }
    }
}

/// A redis-server in Sentinel mode.
pub struct Sentinel {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Sentinel {
    fn start(primary: u16, down_after: Duration) -> Self {
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        for _ in 0..5 {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = probe.local_addr().expect("an address").port();
            drop(probe);
            let configuration = directory.path().join("sentinel.conf");
            let text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\n\
                 sentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds {NAME} {}\n\
                 sentinel failover-timeout {NAME} 3000\n",
                directory.path().display(),
                down_after.as_millis()
            );
            std::fs::write(&configuration, text).expect("a temporary directory");
            let mut process = Command::new(&program)
                .arg(&configuration)
                .arg("--sentinel")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("redis-server is installed");
            if answers(&mut process, port) {
                let sentinel = Self { process, port, _directory: directory };
                sentinel.hasten();
                return sentinel;
            }
            process.kill().ok();
            process.wait().ok();
        }
        panic!("redis-server --sentinel does not start");
    }

    /// Sentinels gossip every 2 s, and ask who is a replica every 10 s: tests have no time for that.
    /// What decides when a primary is down, and who may act on it, stays as configured. A busy
    /// machine's pauses are not to stop them for half a minute (TILT) either.
    fn hasten(&self) {
        let debug = ["INFO-PERIOD", "100", "PUBLISH-PERIOD", "100", "ASK-PERIOD", "100"];
        let tilt = ["TILT-TRIGGER", "20000", "TILT-PERIOD", "1000"];
        let words: Vec<&str> = ["SENTINEL", "DEBUG"].into_iter().chain(debug).chain(tilt).collect();
        // Redis 6.2 has no such command, and takes its time.
        self.run::<()>(&words).ok();
    }

    /// Waits until this Sentinel knows the replica and the two others.
    async fn ready(&self) {
        eventually("a Sentinel knows all others", PATIENCE, || async {
            let info: String =
                self.run(&["INFO", "sentinel"]).map_err(|error| error.to_string())?;
            if info.contains("slaves=1,sentinels=3") { Ok(()) } else { Err(info) }
        })
        .await;
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        let mut command = redis::Cmd::new();
        command.arg(words).query(&mut connection)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Whether a process has come to listen on its port.
fn answers(process: &mut Child, port: u16) -> bool {
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if process.try_wait().expect("a child of ours").is_some() {
            return false;
        }
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}
