//! What stands before each node, so that nodes can be cut off from each other and not from the guards.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Two ports for each node: of its clients, and of its bus.
pub struct Doors {
    pub ports: Vec<[u16; 2]>,
    /// The node that no other node reaches, nor it another one.
    cut_off: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Doors {
    /// Opens doors to nodes on these ports.
    pub async fn open(nodes: impl Iterator<Item = u16>) -> Self {
        let cut_off = Arc::new(AtomicUsize::new(NONE));
        let (mut ports, mut tasks) = (Vec::new(), JoinSet::new());
        for (node, port) in nodes.enumerate() {
            let mut doors = [0; 2];
            for (door, to) in doors.iter_mut().zip([port, port + 10_000]) {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                *door = listener.local_addr().expect("an address").port();
                tasks.spawn(serve(listener, node, to, Arc::clone(&cut_off)));
            }
            ports.push(doors);
        }
        Self { ports, cut_off, _tasks: tasks }
    }

    /// Cuts a node off from all others: what they send each other is held back.
    pub fn cut_off(&self, node: usize) {
        self.cut_off.store(node, Ordering::SeqCst);
    }

    /// Has all that was held back go on.
    pub fn heal(&self) {
        self.cut_off.store(NONE, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, target: usize, port: u16, cut_off: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((from, address)) = listener.accept().await {
        let source = match address.ip() {
            IpAddr::V4(Ipv4Addr::LOCALHOST) => None,
            IpAddr::V4(node) => Some(usize::from(node.octets()[3]) - 10),
            IpAddr::V6(_) => unreachable!("it listens on 127.0.0.1"),
        };
        let way = Way { cut_off: Arc::clone(&cut_off), source, target };
        connections.spawn(connect(from, port, way));
    }
}

/// From whom to whom a connection is.
#[derive(Clone)]
struct Way {
    cut_off: Arc<AtomicUsize>,
    /// Nothing for what is no node.
    source: Option<usize>,
    target: usize,
}

impl Way {
    /// Waits until what was sent may arrive.
    async fn is_open(&self) {
        let holds = |source| {
            let cut_off = self.cut_off.load(Ordering::SeqCst);
            source == cut_off || self.target == cut_off
        };
        while self.source.is_some_and(holds) {
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
        () = pass(client, server, &way) => {}
        () = pass(replies, answers, &way) => {}
    }
}

/// Passes on what comes, each piece once it may.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, way: &Way) {
    let mut piece = vec![0; 1 << 18];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        way.is_open().await;
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}
