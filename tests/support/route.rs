//! A TCP route to a server that can move, break, or fall silent: a name, a network, a firewall.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the route does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// It carries them to the server on this port.
    To(u16),
    /// It closes every connection, the open ones too.
    Cut,
    /// It accepts connections and carries nothing, without a word.
    Silent,
}

/// A route to a server on loopback.
pub struct Route {
    port: u16,
    traffic: Arc<watch::Sender<Traffic>>,
    _tasks: JoinSet<()>,
}

impl Route {
    /// Opens a route to a port.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let traffic = Arc::new(watch::Sender::new(Traffic::To(target)));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&traffic);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, shared.subscribe()));
            }
        });
        Self { port, traffic, _tasks: tasks }
    }

    /// The route's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Changes what becomes of traffic, also on open connections: those to another server than the
    /// new one are closed.
    pub fn turn(&self, traffic: Traffic) {
        self.traffic.send_replace(traffic);
    }
}

async fn carry(mut client: TcpStream, mut traffic: watch::Receiver<Traffic>) {
    let first = traffic.wait_for(|traffic| *traffic != Traffic::Silent).await.map(|first| *first);
    let Ok(Traffic::To(target)) = first else { return };
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (mut request, mut reply) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let now = *traffic.borrow_and_update();
        if now == Traffic::Silent {
            if traffic.changed().await.is_err() {
                return;
            }
            continue;
        }
        if now != Traffic::To(target) {
            return;
        }
        tokio::select! {
            biased;
            changed = traffic.changed() => {
                if changed.is_err() { return }
            }
            read = client.read(&mut request) => {
                let Ok(read @ 1..) = read else { return };
                if server.write_all(&request[..read]).await.is_err() { return }
            }
            read = server.read(&mut reply) => {
                let Ok(read @ 1..) = read else { return };
                if client.write_all(&reply[..read]).await.is_err() { return }
            }
        }
    }
}
