//! A network on which each request takes a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// A way to a port on which each request takes so long, and which is silent when told so: nothing is lost,
/// and what was held up arrives in the end.
pub struct Far {
    port: u16,
    silent: Arc<watch::Sender<bool>>,
}

impl Far {
    pub async fn to(target: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Arc::new(watch::Sender::new(false));
        let told = Arc::clone(&silent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let quiet = told.subscribe();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
                        return;
                    };
                    let (client_reads, client_writes) = client.into_split();
                    let (server_reads, server_writes) = server.into_split();
                    tokio::select! {
                        () = carry(client_reads, server_writes, delay, Some(quiet)) => {}
                        () = carry(server_reads, client_writes, Duration::ZERO, None) => {}
                    }
                });
            }
        });
        Self { port, silent }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn be_silent(&self, silent: bool) {
        self.silent.send_replace(silent);
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    mut quiet: Option<watch::Receiver<bool>>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        sleep(delay).await;
        if let Some(quiet) = &mut quiet
            && quiet.wait_for(|quiet| !quiet).await.is_err()
        {
            return;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
