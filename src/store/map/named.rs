//! A server that somebody has named, and who was named last. The links of a guard ask at the same moments, and one answer is good for all of them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, RedisResult};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::store::BoxFuture;
use crate::store::link::access::Access;
use crate::store::link::connector::Address;
use crate::store::link::resp::Packed;
use crate::store::link::transport::Transport;

/// For how long an answer is good for connections that are made.
const FRESH: Duration = Duration::from_millis(100);

/// A server that somebody has named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Server {
    /// Returns how to connect to it: as to another server.
    pub(super) fn address(&self, like: &ConnectionInfo, access: &Access) -> Address {
        let host = self.host.clone();
        let port = self.port;
        let address = match like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                let insecure = *insecure;
                let tls_params = tls_params.clone();
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Address::new(like.clone().set_addr(address), access.clone())
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

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
        let named = ask.await;
        *last = named.as_ref().ok().map(|server| (server.clone(), at));
        named
    }

    /// Returns who was named last, unless it is asked just now.
    pub(super) fn server(&self) -> Option<String> {
        Some(self.0.try_lock().ok()?.as_ref()?.0.to_string())
    }
}

/// Who names servers.
pub(super) trait Names: Send + Sync + Sized + 'static {
    const OF_A_CLUSTER: bool;

    /// Says what speaks against the server at the other end of a connection, by who is named now.
    fn judges<'a>(&'a self, connection: &'a ToNamed<Self>) -> BoxFuture<'a, Option<String>>;
}

/// A connection to a server that was named.
pub(super) struct ToNamed<N> {
    transport: Arc<dyn Transport>,
    server: Server,
    by: N,
    pub(super) made: Instant,
    /// Whether the server was named once more since.
    confirmed: AtomicBool,
}

impl<N: Names> ToNamed<N> {
    pub(super) fn new(transport: Arc<dyn Transport>, server: Server, by: N) -> Arc<Self> {
        let made = Instant::now();
        let confirmed = AtomicBool::new(false);
        Arc::new(Self { transport, server, by, made, confirmed })
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Relaxed)
    }

    /// Says what speaks against the server. Nobody but the first time: whoever is in use is as good as before.
    pub(super) fn judge(&self, named: io::Result<Server>) -> Option<String> {
        match named {
            Ok(named) if named == self.server => {
                self.confirmed.store(true, Ordering::Relaxed);
                None
            }
            Ok(named) => Some(format!("another primary is named: {named}, not {}", self.server)),
            Err(_) if self.is_confirmed() => None,
            Err(error) => Some(error.to_string()),
        }
    }
}

impl<N: Names> Transport for ToNamed<N> {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
        self.transport.send(packed)
    }

    fn tell(&self, packed: Packed) {
        self.transport.tell(packed);
    }

    fn local(&self) -> Option<SocketAddr> {
        self.transport.local()
    }

    fn until(&self) -> Option<Instant> {
        self.transport.until()
    }

    fn is_to_a_cluster(&self) -> bool {
        N::OF_A_CLUSTER
    }

    fn replaced(&self) -> BoxFuture<'_, Option<String>> {
        self.by.judges(self)
    }
}
