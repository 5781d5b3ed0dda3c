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
use futures_util::future::select_ok;
use tokio::net::{TcpStream, lookup_host};
#[cfg(feature = "tls")]
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access::Access;
use super::credentials::Credentials;
use super::driver::Driver;
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

    /// Returns the last server it connected to, if Sentinels or nodes of a cluster name it.
    fn server(&self) -> Option<String> {
        None
    }

    /// Returns a connector to each of some addresses of the host; none where there is no host.
    fn apart(&self) -> BoxFuture<'_, io::Result<Vec<Arc<dyn Connector>>>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}

/// The address of a real server.
pub(crate) struct Address {
    info: ConnectionInfo,
    access: Access,
    /// The one address of the host that is dialled; any if there is none.
    only: Option<SocketAddr>,
}

impl Connector for Address {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(async move {
            let credentials = self.access.credentials().await?;
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "redis is out of reach");
            let mut driver = timeout(CONNECT, self.open()).await.map_err(late)??;
            driver.until = credentials.as_ref().and_then(|given| given.ends);
            self.introduce(&driver, credentials.as_ref()).await?;
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
            // A server may have an address of each kind. The resolver puts first a kind that can be reached.
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

    /// Opens a connection to whichever of the host's addresses answers first.
    async fn open(&self) -> RedisResult<Driver> {
        let (host, port, tls) = match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => (host, *port, None),
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
                (host, *port, Some(self.tls(host).await?))
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                return Ok(Driver::new(stream.map_err(|error| named(path.display(), &error))?));
            }
            _ => {
                let reason = "no such connection can be made here";
                return Err(RedisError::from((ErrorKind::InvalidClientConfig, reason)));
            }
        };
        let dialled = match self.only {
            Some(address) => vec![address],
            None => some(addresses(host, port).await?),
        };
        if dialled.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address").into());
        }
        let dialled = dialled.into_iter().map(|address| Box::pin(dial(address, tls.as_ref())));
        select_ok(dialled).await.map(|(driver, _)| driver)
    }

    /// Returns how TLS is spoken with a host. Reads files, and so does not do it where others are served.
    #[cfg(feature = "tls")]
    async fn tls(&self, host: &str) -> RedisResult<Tls> {
        let settings = self.access.tls.clone().unwrap_or_default();
        let config = spawn_blocking(move || settings.config()).await.map_err(io::Error::from)??;
        Ok((Arc::new(config).into(), host.to_owned().try_into()?))
    }

    /// Sends credentials, and which database is asked for.
    async fn introduce(&self, driver: &Driver, given: Option<&Credentials>) -> RedisResult<()> {
        let settings = self.info.redis_settings();
        let mut commands = Vec::new();
        let user = given.and_then(|given| given.user.as_deref()).or(settings.username());
        if let Some(password) = given.map(|given| &*given.password).or(settings.password()) {
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

fn named(what: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Returns all addresses of a host, each once.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut seen = HashSet::new();
    let found = lookup_host((host, port)).await.map_err(|error| named(host, &error))?;
    Ok(found.filter(|address| seen.insert(*address)).collect())
}

/// Chooses some of a host's addresses at random.
fn some(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_by_cached_key(|_| random::scatter());
    addresses.truncate(DIALLED);
    addresses
}

/// How TLS is spoken with a server, and the name that its certificate has to be for.
#[cfg(feature = "tls")]
type Tls = (tokio_rustls::TlsConnector, rustls::pki_types::ServerName<'static>);
#[cfg(not(feature = "tls"))]
type Tls = std::convert::Infallible;

async fn dial(address: SocketAddr, tls: Option<&Tls>) -> RedisResult<Driver> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| named(address, &error))?;
    stream.set_nodelay(true)?;
    let local = stream.local_addr().ok();
    let mut driver = match tls {
        #[cfg(feature = "tls")]
        Some((connector, name)) => Driver::new(connector.connect(name.clone(), stream).await?),
        _ => Driver::new(stream),
    };
    driver.local = local;
    Ok(driver)
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
