//! A server whose address Sentinels or nodes of a cluster give. The links of a guard ask at the same moments, and share an answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, RedisError, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::refusal::NAMED;
use crate::store::BoxFuture;
use crate::store::link::access::Access;
use crate::store::link::connector::{Address, Connector};
use crate::store::link::resp::Packed;
use crate::store::link::transport::Transport;

/// For how long new connections share an answer.
const FRESH: Duration = Duration::from_millis(100);
/// How long after a connection to a node of a cluster was made the nodes are asked again.
const SETTLED: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Server {
    /// Returns its address, with all else like that of another server.
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

pub(super) trait Names: fmt::Debug + Clone + Send + Sync + 'static {
    const OF_A_CLUSTER: bool;

    fn primary(&self) -> impl Future<Output = io::Result<Server>> + Send;

    fn dial(&self, server: &Server) -> Arc<dyn Connector>;
}

#[derive(Clone)]
pub(super) struct Named<N> {
    names: N,
    /// The last answer, and when it was asked for.
    last: Arc<Mutex<Option<(Server, Instant)>>>,
}

impl<N: Names> Named<N> {
    pub(super) fn by(names: N) -> Self {
        Self { names, last: Arc::default() }
    }

    /// Returns the server of an answer not older than this moment; asks if there is none.
    async fn since(&self, moment: Instant) -> io::Result<Server> {
        let mut last = self.last.lock().await;
        if let Some((server, at)) = &*last
            && *at >= moment
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
            let server = self.since(lately()).await?;
            let named = |error: RedisError| {
                if !error.is_io_error() {
                    return error;
                }
                io::Error::other(format!("{error}: {NAMED} {:?}", self.names)).into()
            };
            let transport = self.names.dial(&server).connect().await.map_err(named)?;
            Ok(Arc::new(ToNamed::new(transport, server, self.clone())) as Arc<dyn Transport>)
        })
    }

    fn server(&self) -> Option<String> {
        // Unless it is asked just now.
        Some(self.last.try_lock().ok()?.as_ref()?.0.to_string())
    }
}

impl<N: Names> fmt::Debug for Named<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

fn lately() -> Instant {
    let now = Instant::now();
    now.checked_sub(FRESH).unwrap_or(now)
}

pub(super) struct ToNamed<N> {
    transport: Arc<dyn Transport>,
    server: Server,
    by: Named<N>,
    made: Instant,
    /// Whether another answer has named the server since.
    is_confirmed: AtomicBool,
}

impl<N: Names> ToNamed<N> {
    pub(super) fn new(transport: Arc<dyn Transport>, server: Server, by: Named<N>) -> Self {
        Self { transport, server, by, made: Instant::now(), is_confirmed: AtomicBool::new(false) }
    }
}

impl<N: Names> Transport for ToNamed<N> {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
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
        Box::pin(async move {
            let is_confirmed = self.is_confirmed.load(Ordering::Relaxed);
            let moment = match (is_confirmed, N::OF_A_CLUSTER) {
                // From then on the node itself tells.
                (true, true) => return None,
                (true, false) => lately(),
                (false, true) => {
                    sleep(SETTLED).await;
                    self.made + SETTLED
                }
                (false, false) => self.made,
            };
            match self.by.since(moment).await {
                Ok(named) if named == self.server => {
                    self.is_confirmed.store(true, Ordering::Relaxed);
                    None
                }
                Ok(named) => {
                    Some(format!("another primary is named: {named}, not {}", self.server))
                }
                // Without an answer the server in use is as good as before.
                Err(_) if is_confirmed => None,
                Err(error) => Some(error.to_string()),
            }
        })
    }
}
