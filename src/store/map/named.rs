//! A server whose address Sentinels or nodes of a cluster give. A session's three connections ask at the same moment, and share an answer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{RedisError, RedisResult};
use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::endpoint::{Endpoint, Server};
use crate::refusal::NAMED;
use crate::store::BoxFuture;
use crate::store::link::connector::Connector;
use crate::store::link::transport::Transport;

/// For how long new connections share an answer.
const FRESH: Duration = Duration::from_millis(100);
/// How long after a connection to a node of a cluster was made the nodes are asked again.
const SETTLED: Duration = Duration::from_millis(100);

pub(super) trait Names: fmt::Debug + Send + Sync {
    const OF_A_CLUSTER: bool;

    fn primary(&self) -> impl Future<Output = io::Result<Server>> + Send;
}

pub(super) struct Named<N> {
    names: N,
    endpoint: Endpoint,
    /// The last answer, and when it was asked for.
    last: Mutex<Option<(Server, Instant)>>,
    /// Where it has connected last.
    pub(super) server: ArcSwapOption<Server>,
}

impl<N: Names> Named<N> {
    pub(super) fn by(names: N, endpoint: Endpoint) -> Self {
        Self { names, endpoint, last: Mutex::default(), server: ArcSwapOption::empty() }
    }

    /// Returns the server that is named by an answer of at most this age; asks if there is none.
    async fn named(&self, age: Duration) -> io::Result<Server> {
        // All that wait for one answer share it.
        let now = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((server, at)) = &*last
            && *at + age >= now
        {
            return Ok(server.clone());
        }
        let at = Instant::now();
        let named = self.names.primary().await;
        *last = named.as_ref().ok().map(|server| (server.clone(), at));
        named
    }
}

impl<N: Names> Connector for Named<N> {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(async move {
            let server = self.named(FRESH).await;
            self.server.store(server.as_ref().ok().cloned().map(Arc::new));
            let server = server?;
            let explained = |error: RedisError| {
                if !error.is_io_error() {
                    return error;
                }
                io::Error::other(format!("{error}: {NAMED} {:?}", self.names)).into()
            };
            self.endpoint.dial(&server).connect().await.map_err(explained)
        })
    }

    fn is_to_a_cluster(&self) -> bool {
        N::OF_A_CLUSTER
    }

    fn server(&self) -> Option<String> {
        self.server.load().as_ref().map(ToString::to_string)
    }

    fn replaced(&self, in_use: bool) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            if N::OF_A_CLUSTER {
                // The node itself says when it does not serve the slot any more.
                if in_use {
                    return None;
                }
                sleep(SETTLED).await;
            }
            let age = if in_use { FRESH } else { Duration::ZERO };
            let server = self.server().unwrap_or_default();
            match self.named(age).await.map(|named| named.to_string()) {
                Ok(named) if named == server => None,
                Ok(named) => Some(format!("another primary is named: {named}, not {server}")),
                // Without an answer the server in use is as good as before.
                Err(_) if in_use => None,
                Err(error) => Some(error.to_string()),
            }
        })
    }
}

impl<N: Names> fmt::Debug for Named<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use futures_util::future::join3;

    use super::*;

    /// Names another server each time that they are asked, and take long to do so.
    #[derive(Debug, Default)]
    struct Slow(AtomicU16);

    impl Names for Slow {
        const OF_A_CLUSTER: bool = false;

        async fn primary(&self) -> io::Result<Server> {
            let port = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(FRESH * 5).await;
            Ok(Server { host: "node".to_owned(), port })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_made_together_share_an_answer_however_slow_and_a_later_look_has_its_own() {
        let endpoint = Endpoint::parse("redis://localhost").unwrap();
        let named = Named::by(Slow::default(), endpoint);
        let port = async |age| named.named(age).await.unwrap().port;
        let later = async {
            sleep(FRESH).await;
            port(Duration::ZERO).await
        };
        assert_eq!(join3(port(FRESH), port(FRESH), later).await, (1, 1, 2));
        sleep(FRESH * 2).await;
        assert_eq!(port(FRESH).await, 3);
    }
}
