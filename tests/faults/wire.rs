//! A network that fails: a proxy that works on bytes and knows nothing of requests.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// How the network fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fair,
    /// Nothing arrives, nothing breaks; what was sent arrives when this is over, as TCP repeats it.
    BlackHole,
    /// Replies take so much longer.
    Late(Duration),
    /// Of each reply half arrives, then the connection ends.
    Half,
    /// Replies arrive byte by byte, with so much time in between.
    Trickle(Duration),
}

/// A proxy to a port on loopback.
pub(crate) struct Wire {
    port: u16,
    weather: watch::Sender<Weather>,
    resets: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

impl Wire {
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (weather, resets) = (watch::Sender::new(Weather::Fair), watch::Sender::new(()));
        let (forecast, resetting) = (weather.subscribe(), resets.subscribe());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, target, forecast.clone(), resetting.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, weather, resets, _tasks: tasks }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// Resets all connections that there are.
    pub(crate) fn reset(&self) {
        self.resets.send_replace(());
    }
}

type Forecast = watch::Receiver<Weather>;

async fn carry(
    mut client: TcpStream,
    target: u16,
    mut weather: Forecast,
    mut resets: watch::Receiver<()>,
) {
    resets.mark_unchanged();
    arrival(&mut weather).await;
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let reset = tokio::select! {
        () = requests(client_reads, server_writes, weather.clone()) => false,
        () = replies(server_reads, client_writes, weather) => false,
        _ = resets.changed() => true,
    };
    if reset {
        client.set_zero_linger().ok();
        server.set_zero_linger().ok();
    }
}

/// Waits until anything arrives at all.
async fn arrival(weather: &mut Forecast) {
    weather.wait_for(|weather| *weather != Weather::BlackHole).await.ok();
}

async fn requests(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut weather: Forecast) {
    let mut bytes = vec![0; 1 << 18];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        arrival(&mut weather).await;
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: ReadHalf<'_>, to: WriteHalf<'_>, weather: Forecast) {
    let (due, arriving) = mpsc::unbounded_channel();
    let forecast = weather.clone();
    let read = async move {
        let mut bytes = vec![0; 1 << 18];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            let late = match *forecast.borrow() {
                Weather::Late(by) => by,
                _ => Duration::ZERO,
            };
            if due.send((Instant::now() + late, bytes[..read].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::join!(read, deliver(arriving, to, weather));
}

type Arriving = mpsc::UnboundedReceiver<(Instant, Vec<u8>)>;

/// Hands replies on when they are due; ends with the connection.
async fn deliver(mut arriving: Arriving, mut to: WriteHalf<'_>, mut weather: Forecast) {
    while let Some((due, bytes)) = arriving.recv().await {
        sleep_until(due).await;
        arrival(&mut weather).await;
        let now = *weather.borrow_and_update();
        let arrived = match now {
            Weather::Half => {
                to.write_all(&bytes[..bytes.len() / 2]).await.ok();
                return;
            }
            Weather::Trickle(pause) => trickle(&bytes, &mut to, pause, &mut weather).await,
            _ => to.write_all(&bytes).await,
        };
        if arrived.is_err() {
            return;
        }
    }
}

/// Hands bytes on one by one until the weather changes.
async fn trickle(
    bytes: &[u8],
    to: &mut WriteHalf<'_>,
    pause: Duration,
    weather: &mut Forecast,
) -> std::io::Result<()> {
    for at in 0..bytes.len() {
        if timeout(pause, weather.changed()).await.is_ok() {
            return to.write_all(&bytes[at..]).await;
        }
        to.write_all(&bytes[at..=at]).await?;
    }
    Ok(())
}
