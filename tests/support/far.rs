//! A network on which each request takes a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// A way to a port on which each request takes so long, and which is silent when told so: nothing is lost,
/// and what was held up arrives in the end.
pub struct Far {
    port: u16,
    delay: Arc<watch::Sender<Duration>>,
    silent: Arc<watch::Sender<bool>>,
}

impl Far {
    pub async fn to(target: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Arc::new(watch::Sender::new(false));
        let delay = Arc::new(watch::Sender::new(delay));
        let (told, takes) = (Arc::clone(&silent), Arc::clone(&delay));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (quiet, takes) = (told.subscribe(), takes.subscribe());
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
                        return;
                    };
                    let (client_reads, client_writes) = client.into_split();
                    let (server_reads, server_writes) = server.into_split();
                    tokio::select! {
                        () = carry(client_reads, server_writes, Some((takes, quiet))) => {}
                        () = carry(server_reads, client_writes, None) => {}
                    }
                });
            }
        });
        Self { port, delay, silent }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Lets each request take so long from now on.
    pub fn take(&self, delay: Duration) {
        self.delay.send_replace(delay);
    }

    pub fn be_silent(&self, silent: bool) {
        self.silent.send_replace(silent);
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    toll: Option<(watch::Receiver<Duration>, watch::Receiver<bool>)>,
) {
    // What is on its way holds up nothing that comes after it.
    let (send, mut sent) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (takes, mut quiet) = toll.unzip();
    let reads = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            let delay = takes.as_ref().map_or(Duration::ZERO, |takes| *takes.borrow());
            if send.send((Instant::now() + delay, bytes[..read].to_vec())).is_err() {
                return;
            }
        }
    };
    let writes = async {
        while let Some((due, bytes)) = sent.recv().await {
            sleep_until(due).await;
            if let Some(quiet) = &mut quiet
                && quiet.wait_for(|quiet| !quiet).await.is_err()
            {
                return;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reads => {}
        () = writes => {}
    }
}
