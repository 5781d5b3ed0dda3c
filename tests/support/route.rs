//! A TCP route to a server that can move, break, fall silent or be slow: a name, a network, a firewall.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// What the route does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// It carries them.
    Fair,
    /// It closes every connection, the open ones too.
    Cut,
    /// Nothing arrives, nothing breaks; what was sent arrives when this is over, as TCP repeats it.
    Silent,
    /// Replies take so much longer.
    Late(Duration),
    /// Of each reply half arrives, then the connection ends.
    Half,
    /// Replies arrive byte by byte, with so much time in between.
    Trickle(Duration),
}

/// A route to a server on loopback.
pub struct Route {
    port: u16,
    target: Arc<watch::Sender<u16>>,
    traffic: Arc<watch::Sender<Traffic>>,
    _tasks: JoinSet<()>,
}

impl Route {
    /// Opens a route to a port.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let target = Arc::new(watch::Sender::new(target));
        let traffic = Arc::new(watch::Sender::new(Traffic::Fair));
        let mut tasks = JoinSet::new();
        let (leads, weather) = (target.subscribe(), traffic.subscribe());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, leads.clone(), weather.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, target, traffic, _tasks: tasks }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The route's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Changes what becomes of traffic, also on open connections.
    pub fn turn(&self, traffic: Traffic) {
        self.traffic.send_replace(traffic);
    }

    /// Carries traffic to the server on this port from now on, and resets all connections that there are.
    pub fn lead_to(&self, target: u16) {
        self.traffic.send_replace(Traffic::Fair);
        self.target.send_replace(target);
    }

    /// Resets all connections that there are.
    pub fn reset(&self) {
        self.target.send_modify(|_| {});
    }
}

type Weather = watch::Receiver<Traffic>;

async fn carry(mut client: TcpStream, mut target: watch::Receiver<u16>, mut traffic: Weather) {
    let port = *target.borrow_and_update();
    arrival(&mut traffic).await;
    if *traffic.borrow() == Traffic::Cut {
        return;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let mut cut = traffic.clone();
    let is_reset = tokio::select! {
        () = requests(client_reads, server_writes, traffic.clone()) => false,
        () = replies(server_reads, client_writes, traffic) => false,
        _ = cut.wait_for(|traffic| *traffic == Traffic::Cut) => false,
        _ = target.changed() => true,
    };
    if is_reset {
        client.set_zero_linger().ok();
        server.set_zero_linger().ok();
    }
}

/// Waits until anything arrives at all.
async fn arrival(traffic: &mut Weather) {
    traffic.wait_for(|traffic| *traffic != Traffic::Silent).await.ok();
}

async fn requests(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut traffic: Weather) {
    let mut bytes = vec![0; 1 << 18];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        arrival(&mut traffic).await;
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: ReadHalf<'_>, to: WriteHalf<'_>, traffic: Weather) {
    let (due, arriving) = mpsc::unbounded_channel();
    let now = traffic.clone();
    let read = async move {
        let mut bytes = vec![0; 1 << 18];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            let late = match *now.borrow() {
                Traffic::Late(by) => by,
                _ => Duration::ZERO,
            };
            if due.send((Instant::now() + late, bytes[..read].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::join!(read, deliver(arriving, to, traffic));
}

type Arriving = mpsc::UnboundedReceiver<(Instant, Vec<u8>)>;

/// Hands replies on when they are due; ends with the connection.
async fn deliver(mut arriving: Arriving, mut to: WriteHalf<'_>, mut traffic: Weather) {
    while let Some((due, bytes)) = arriving.recv().await {
        sleep_until(due).await;
        arrival(&mut traffic).await;
        let now = *traffic.borrow_and_update();
        let arrived = match now {
            Traffic::Half => {
                to.write_all(&bytes[..bytes.len() / 2]).await.ok();
                return;
            }
            Traffic::Trickle(pause) => trickle(&bytes, &mut to, pause, &mut traffic).await,
            _ => to.write_all(&bytes).await,
        };
        if arrived.is_err() {
            return;
        }
    }
}

/// Hands bytes on one by one until the traffic changes.
async fn trickle(
    bytes: &[u8],
    to: &mut WriteHalf<'_>,
    pause: Duration,
    traffic: &mut Weather,
) -> std::io::Result<()> {
    for at in 0..bytes.len() {
        if timeout(pause, traffic.changed()).await.is_ok() {
            return to.write_all(&bytes[at..]).await;
        }
        to.write_all(&bytes[at..=at]).await?;
    }
    Ok(())
}
