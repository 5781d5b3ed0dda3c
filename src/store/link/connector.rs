//! Opens connections: by TCP, with TLS or to a Unix socket.
//!
//! All other files but `driver` work with [`Connector`] and [`Transport`]. So a model of Redis can take the network's place, and the
//! whole protocol can be run with any delays and losses.

use std::collections::HashSet;
use std::fmt;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, cmd};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
#[cfg(feature = "tls")]
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access::Access;
use super::credentials::Credentials;
use super::driver::Driver;
#[cfg(feature = "tls")]
use super::refusal::Consequences;
#[cfg(feature = "tls")]
use super::tls::TlsSettings;
use super::transport::{HANDSHAKE, Transport};
use crate::random;
use crate::store::BoxFuture;

/// How long it may take to connect: name, TCP and TLS.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);
/// How many addresses of one name are dialled at once.
const DIALLED: usize = 3;

/// Opens connections to one server, wherever it is.
pub(crate) trait Connector: fmt::Debug + Send + Sync {
    /// Opens a connection, within time limits of its own. The caller has to find out which Redis process answers on it.
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>>;

    /// Returns the server that it led to last, where others name it.
    fn server(&self) -> Option<String> {
        None
    }

    /// Returns what connects to some of the servers that have one name, each to another one; nothing where there is no name.
    fn apart(&self) -> BoxFuture<'_, io::Result<Vec<Arc<dyn Connector>>>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}

/// The address of a real server.
pub(crate) struct Address {
    info: ConnectionInfo,
    access: Access,
    /// Which of the name's addresses it is, if only one.
    only: Option<SocketAddr>,
}

impl Connector for Address {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(async move {
            let credentials = self.access.credentials().await?;
            // Without TLS a server waits for the rest of what it takes for a command.
            let reason = match self.info.addr() {
                ConnectionAddr::TcpTls { .. } => {
                    "redis is out of reach, its TLS handshake takes too long, or its port takes no TLS and needs redis://"
                }
                _ => "redis is out of reach",
            };
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, reason);
            let mut driver = timeout(CONNECT, self.open()).await.map_err(late)??;
            driver.until = credentials.as_ref().and_then(Credentials::ends);
            if let Err(error) = self.introduce(&driver, credentials.as_ref()).await {
                self.access.forget().await;
                return Err(error);
            }
            Ok(Arc::new(driver) as Arc<dyn Transport>)
        })
    }

    fn apart(&self) -> BoxFuture<'_, io::Result<Vec<Arc<dyn Connector>>>> {
        Box::pin(async move {
            let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) =
                self.info.addr()
            else {
                return Ok(Vec::new());
            };
            let mut all = timeout(CONNECT, addresses(host, *port)).await??;
            // A server may have an address of each kind. The kind that goes first can be reached.
            let is_v4 = all.first().is_some_and(SocketAddr::is_ipv4);
            all.retain(|address| address.is_ipv4() == is_v4);
            let only = |address| {
                let of = Self::new(self.info.clone(), self.access.clone());
                Arc::new(Self { only: Some(address), ..of }) as Arc<dyn Connector>
            };
            Ok(some(all).into_iter().map(only).collect())
        })
    }
}

impl Address {
    pub(crate) fn new(info: ConnectionInfo, access: Access) -> Self {
        Self { info, access, only: None }
    }

    async fn open(&self) -> RedisResult<Driver> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                first(self.dialled(host, *port).await?, |address| async move {
                    let stream = tcp(address).await?;
                    let local = stream.local_addr().ok();
                    let mut driver = Driver::new(stream, false);
                    driver.local = local;
                    Ok(driver)
                })
                .await
            }
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
                let open = tls(host, self.access.tls()).await?;
                first(self.dialled(host, *port).await?, open).await
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                Ok(Driver::new(tokio::net::UnixStream::connect(path).await?, false))
            }
            _ => {
                let reason = "no such connection can be made here";
                Err(RedisError::from((ErrorKind::InvalidClientConfig, reason)))
            }
        }
    }

    /// Returns the addresses that are dialled at once.
    async fn dialled(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self.only {
            Some(address) => Ok(vec![address]),
            None => addresses(host, port).await.map(some),
        }
    }

    /// Sends credentials, and which database is asked for.
    async fn introduce(&self, driver: &Driver, given: Option<&Credentials>) -> RedisResult<()> {
        let settings = self.info.redis_settings();
        let mut commands = Vec::new();
        let named = settings.username();
        let given = given.map(Credentials::name_and_password);
        let given = given.map(|(user, password)| (user.or(named), password));
        let of_url = settings.password().map(|password| (named, password));
        if let Some((user, password)) = given.or(of_url) {
            commands.push(cmd("AUTH").arg(user).arg(password).clone());
        }
        if settings.db() != 0 {
            commands.push(cmd("SELECT").arg(settings.db()).clone());
        }
        if !commands.is_empty() {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "redis does not answer");
            let sent = driver.send(commands.into_iter().collect());
            timeout(HANDSHAKE, sent).await.map_err(late)??;
        }
        Ok(())
    }
}

/// Returns all addresses of a host, each once.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut seen = HashSet::new();
    Ok(lookup_host((host, port)).await?.filter(|address| seen.insert(*address)).collect())
}

/// Returns some of a host's addresses: each time others.
fn some(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_by_cached_key(|_| random::scatter());
    addresses.truncate(DIALLED);
    addresses
}

/// Opens a connection to whichever of a host's addresses answers first.
async fn first<F>(addresses: Vec<SocketAddr>, open: impl Fn(SocketAddr) -> F) -> RedisResult<Driver>
where
    F: Future<Output = RedisResult<Driver>> + Send + 'static,
{
    let mut attempts = JoinSet::new();
    for address in addresses {
        attempts.spawn(open(address));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address").into();
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::from)? {
            Ok(driver) => return Ok(driver),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let stream = TcpStream::connect(address).await.map_err(named)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Opens connections with TLS to a host. Reads files, and so does not do it where others are served.
#[cfg(feature = "tls")]
async fn tls(
    host: &str,
    settings: Option<Arc<TlsSettings>>,
) -> RedisResult<impl Fn(SocketAddr) -> BoxFuture<'static, RedisResult<Driver>>> {
    let config = spawn_blocking(move || settings.unwrap_or_default().config());
    let config = Arc::new(config.await.map_err(io::Error::from)??);
    let connector = tokio_rustls::TlsConnector::from(config);
    let name: rustls::pki_types::ServerName<'static> = host.to_owned().try_into()?;
    let no_tls = |error: io::Error| {
        let words = error.to_string();
        let known = Consequences::known(&words);
        let hint = known.map_or(" (a port that takes no TLS needs redis://)", |_| "");
        io::Error::new(error.kind(), words + hint)
    };
    Ok(move |address| {
        let connector = connector.clone();
        let name = name.clone();
        Box::pin(async move {
            let stream = tcp(address).await?;
            let local = stream.local_addr().ok();
            let mut driver =
                Driver::new(connector.connect(name, stream).await.map_err(no_tls)?, true);
            driver.local = local;
            Ok(driver)
        }) as BoxFuture<'_, _>
    })
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info.redis_settings().db() {
            0 => write!(f, "{}", self.info.addr()),
            database => write!(f, "{}/{database}", self.info.addr()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ::redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn three_addresses_of_a_name_are_dialled_and_each_time_others() {
        let all: Vec<SocketAddr> = (1..=9).map(|host| ([10, 0, 0, host], 6_379).into()).collect();
        let mut dialled = HashSet::new();
        for _ in 0..1_000 {
            let chosen = some(all.clone());
            assert_eq!(chosen.iter().collect::<HashSet<_>>().len(), 3, "{chosen:?}");
            dialled.extend(chosen);
        }
        assert_eq!(dialled.len(), all.len());
        assert_eq!(some(all[..2].to_vec()).len(), 2);
    }

    #[tokio::test]
    async fn a_name_leads_to_each_of_its_addresses_apart() {
        let info = "redis://127.0.0.1:7".into_connection_info().unwrap();
        let address = Address::new(info, Access::default());
        assert_eq!(format!("{:?}", address.apart().await.unwrap()), "[127.0.0.1:7]");
        let socket = "redis+unix:///tmp/redis.sock".into_connection_info().unwrap();
        assert!(Address::new(socket, Access::default()).apart().await.unwrap().is_empty());
    }
}
