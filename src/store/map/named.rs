//! Who was named last. The links of a guard ask at the same moments, and one answer is good for all of them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::server::Server;

/// For how long an answer is good for connections that are made.
const FRESH: Duration = Duration::from_millis(100);

/// The last answer, and when it was asked for.
#[derive(Default)]
pub(super) struct LastNamed(Mutex<Option<(Server, Instant)>>);

impl LastNamed {
    /// Returns who was named lately, or who is named now.
    pub(super) async fn lately(
        &self,
        ask: impl Future<Output = io::Result<Server>>,
    ) -> io::Result<Server> {
        let now = Instant::now();
        self.since(now.checked_sub(FRESH).unwrap_or(now), ask).await
    }

    /// Returns who was named since a moment, or who is named now.
    pub(super) async fn since(
        &self,
        moment: Instant,
        ask: impl Future<Output = io::Result<Server>>,
    ) -> io::Result<Server> {
        let mut last = self.0.lock().await;
        if let Some((server, at)) = &*last
            && *at >= moment
        {
            return Ok(server.clone());
        }
        let at = Instant::now();
        let server = ask.await?;
        *last = Some((server.clone(), at));
        Ok(server)
    }
}

/// Whether the server at the other end of a connection was named once more since the connection was made.
#[derive(Default)]
pub(super) struct Confirmed(AtomicBool);

impl Confirmed {
    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says what speaks against a server, by who is named now. Nobody but the first time: whoever is in use is as good as before.
    pub(super) fn judge(&self, is: &Server, named: io::Result<Server>) -> Option<String> {
        match named {
            Ok(named) if named == *is => {
                self.0.store(true, Ordering::Relaxed);
                None
            }
            Ok(named) => Some(format!("another primary is named: {named}, not {is}")),
            Err(_) if self.is() => None,
            Err(error) => Some(error.to_string()),
        }
    }
}
