//! A server's network: every connection to it passes here, and those of its peers can be held up.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Where servers and Sentinels call from.
pub const PEERS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// What passes of those that are held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Everything.
    Clear,
    /// Everything but what goes to replicas, which fall behind without noticing.
    ReplicasBehind,
    /// Nothing. Connections stay open, as when packets are dropped.
    Cut,
}

/// A network in front of one server.
pub struct Network {
    port: u16,
    weather: watch::Sender<Weather>,
    target: watch::Sender<u16>,
    /// One for each connection that is open, and one here.
    open: Arc<()>,
    _tasks: JoinSet<()>,
}

impl Network {
    /// Opens a network on a free port; [`lead_to`](Self::lead_to) says where it leads. The weather is for peers, all others
    /// are counted while they are there.
    pub async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let weather = watch::Sender::new(Weather::Clear);
        let target = watch::Sender::new(0);
        let (gate, leads) = (weather.subscribe(), target.subscribe());
        let open = Arc::new(());
        let counted = Arc::clone(&open);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, from)) = listener.accept().await {
                let target = *leads.borrow();
                if from.ip() == PEERS {
                    connections.spawn(forward(client, target, gate.clone()));
                } else {
                    connections.spawn(pass(client, target, Arc::clone(&counted)));
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, weather, target, open, _tasks: tasks }
    }

    /// Names the server's own port.
    pub fn lead_to(&self, port: u16) {
        self.target.send_replace(port);
    }

    /// The port that the server's peers know it by.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// How many connections are open that are not held up.
    pub fn clients(&self) -> usize {
        Arc::strong_count(&self.open).saturating_sub(2)
    }

    /// Changes what passes from now on.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

/// Carries all bytes both ways.
pub async fn pass(mut client: TcpStream, target: u16, _counted: Arc<()>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    // Either end may go away as it likes.
    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
}

async fn forward(peer: TcpStream, target: u16, gate: watch::Receiver<Weather>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    for stream in [&peer, &server] {
        stream.set_nodelay(true).ok();
    }
    let replica = Arc::new(AtomicBool::new(false));
    let (from_peer, to_peer) = peer.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pump(from_peer, to_server, gate.clone(), Arc::clone(&replica), Direction::Up);
    let down = pump(from_server, to_peer, gate, replica, Direction::Down);
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Carries bytes, and the end of them, as the weather allows.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut gate: watch::Receiver<Weather>,
    replica: Arc<AtomicBool>,
    direction: Direction,
) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        let bytes = &bytes[..read];
        if direction == Direction::Up && bytes.windows(5).any(|word| word == b"PSYNC") {
            replica.store(true, Ordering::SeqCst);
        }
        let passes = |weather: &Weather| match weather {
            Weather::Clear => true,
            Weather::ReplicasBehind => {
                direction == Direction::Up || !replica.load(Ordering::SeqCst)
            }
            Weather::Cut => false,
        };
        if gate.wait_for(passes).await.is_err() || read == 0 || to.write_all(bytes).await.is_err() {
            return;
        }
    }
}
