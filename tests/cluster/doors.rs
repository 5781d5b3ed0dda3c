//! What stands before each node, so that nodes can be cut off from each other and not from the guards, or be slow.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use support::redis_server::RedisServer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// No node is cut off.
const NONE: usize = usize::MAX;

/// The address from which a node connects to others; guards and tests come from 127.0.0.1.
pub fn source_of(node: usize) -> String {
    format!("127.0.0.{}", 10 + node)
}

/// Whether the server can be told so. Redis 6.2 cannot.
pub fn are_possible() -> bool {
    let setting: Vec<String> = RedisServer::start().run(&["CONFIG", "GET", "bind-source-addr"]);
    !setting.is_empty()
}

/// How the network is.
struct Network {
    /// The node that no other node reaches, nor it another one.
    cut_off: AtomicUsize,
    /// The node whose answers to others than nodes are late.
    slow: AtomicUsize,
    late_by_ms: AtomicU64,
}

impl Network {
    fn holds(&self, source: Option<usize>, target: usize) -> bool {
        let cut_off = self.cut_off.load(Ordering::SeqCst);
        source.is_some_and(|source| source == cut_off || target == cut_off)
    }

    fn late_by(&self, source: Option<usize>, target: usize) -> Duration {
        let is_slow = source.is_none() && target == self.slow.load(Ordering::SeqCst);
        Duration::from_millis(if is_slow { self.late_by_ms.load(Ordering::SeqCst) } else { 0 })
    }
}

/// Two ports for each node: of its clients, and of its bus.
pub struct Doors {
    pub ports: Vec<[u16; 2]>,
    network: Arc<Network>,
    _tasks: JoinSet<()>,
}

impl Doors {
    /// Opens doors to nodes on these ports.
    pub async fn open(nodes: impl Iterator<Item = u16>) -> Self {
        let network = Arc::new(Network {
            cut_off: AtomicUsize::new(NONE),
            slow: AtomicUsize::new(NONE),
            late_by_ms: AtomicU64::new(0),
        });
        let (mut ports, mut tasks) = (Vec::new(), JoinSet::new());
        for (node, port) in nodes.enumerate() {
            let mut doors = [0; 2];
            for (door, to) in doors.iter_mut().zip([port, port + 10_000]) {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                *door = listener.local_addr().expect("an address").port();
                tasks.spawn(serve(listener, node, to, Arc::clone(&network)));
            }
            ports.push(doors);
        }
        Self { ports, network, _tasks: tasks }
    }

    /// Cuts a node off from all others: what they send each other is held back.
    pub fn cut_off(&self, node: usize) {
        self.network.cut_off.store(node, Ordering::SeqCst);
    }

    /// Has all that was held back go on.
    pub fn heal(&self) {
        self.network.cut_off.store(NONE, Ordering::SeqCst);
        self.network.slow.store(NONE, Ordering::SeqCst);
    }

    /// Has a node's answers to its clients be late.
    pub fn slow_down(&self, node: usize, by: Duration) {
        self.network.late_by_ms.store(by.as_millis() as u64, Ordering::SeqCst);
        self.network.slow.store(node, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, target: usize, port: u16, network: Arc<Network>) {
    let mut connections = JoinSet::new();
    while let Ok((from, address)) = listener.accept().await {
        let source = match address.ip() {
            IpAddr::V4(Ipv4Addr::LOCALHOST) => None,
            IpAddr::V4(node) => Some(usize::from(node.octets()[3]) - 10),
            IpAddr::V6(_) => unreachable!("it listens on 127.0.0.1"),
        };
        connections.spawn(connect(
            from,
            port,
            Way { network: Arc::clone(&network), source, target },
        ));
    }
}

/// From whom to whom a connection is.
#[derive(Clone)]
struct Way {
    network: Arc<Network>,
    /// Nothing for what is no node.
    source: Option<usize>,
    target: usize,
}

impl Way {
    /// Waits until what was sent may arrive.
    async fn is_open(&self) {
        while self.network.holds(self.source, self.target) {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn connect(from: TcpStream, port: u16, way: Way) {
    let Ok(to) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    from.set_nodelay(true).ok();
    to.set_nodelay(true).ok();
    let ((client, answers), (replies, server)) = (from.into_split(), to.into_split());
    tokio::select! {
        () = pass(client, server, &way, false) => {}
        () = pass(replies, answers, &way, true) => {}
    }
}

/// Passes on what comes, each piece once it may.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: &Way,
    is_answer: bool,
) {
    let mut piece = vec![0; 1 << 18];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        if is_answer {
            sleep(way.network.late_by(way.source, way.target)).await;
        }
        way.is_open().await;
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}
