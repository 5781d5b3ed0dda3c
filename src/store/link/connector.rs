//! Opens connections: by TCP, with TLS or to a Unix socket.
//!
//! All other files but `driver` work with [`Connector`] and [`Transport`]. So a model of Redis can take the network's place, and the
//! whole protocol can be run with any delays and losses.

use std::fmt;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, cmd};
use futures_util::future::select_ok;
use tokio::net::{TcpStream, lookup_host};
#[cfg(feature = "tls")]
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

use super::credentials::{Credentials, Provider};
use super::driver::Driver;
#[cfg(feature = "tls")]
use super::tls::TlsSettings;
use super::transport::{HANDSHAKE, Transport};
use crate::error::SettingError;
use crate::random;
use crate::store::BoxFuture;

/// How long it may take to connect: name, TCP and TLS.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);
/// How many addresses of one name are dialled at once.
const DIALLED: usize = 3;
/// The shortest time from one renewal of credentials to the next, and from one attempt at it.
const RENEWED: Duration = Duration::from_secs(1);

/// Opens connections to one server, wherever it is.
pub(crate) trait Connector: fmt::Debug + Send + Sync {
    /// Opens a connection, within time limits of its own. The caller has to find out which Redis process answers on it.
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>>;

    fn is_to_a_cluster(&self) -> bool {
        false
    }

    /// Returns the server that it was led to last, if Sentinels or nodes of a cluster name it.
    fn server(&self) -> Option<String> {
        None
    }

    /// Asks Sentinels or nodes again whether connections to that server are right: before they are used, and while they are in use.
    /// Returns the reason if not.
    fn replaced(&self, _in_use: bool) -> BoxFuture<'_, Option<String>> {
        Box::pin(ready(None))
    }
}

/// What a connection is opened with, beside what its URL says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(crate) credentials: Option<Arc<Provider>>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<TlsSettings>>,
}

impl Access {
    /// Fails if a URL cannot have this beside it.
    pub(crate) fn judge(&self, url: &ConnectionInfo) -> Result<(), SettingError> {
        let redis = url.redis_settings();
        match (&self.credentials, redis.username(), redis.password()) {
            (Some(_), _, Some(_)) => {
                let reason = "credentials: the redis url has a password, too";
                return Err(SettingError::Combination { reason });
            }
            (None, Some(_), None) => {
                let reason =
                    "the redis url has a user without a password, and there are no credentials";
                return Err(SettingError::Combination { reason });
            }
            _ => {}
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            if !matches!(url.addr(), ConnectionAddr::TcpTls { .. }) {
                let reason = "has no effect on a redis:// url: leave it out".to_owned();
                return Err(SettingError::Invalid { setting: "tls", reason });
            }
            tls.judge()?;
        }
        Ok(())
    }

    pub(crate) async fn credentials(&self) -> io::Result<Option<Credentials>> {
        match &self.credentials {
            Some(provider) => provider.credentials().await.map(Some),
            None => Ok(None),
        }
    }
}

/// The address of a real server.
#[derive(Clone)]
pub(crate) struct Address {
    info: ConnectionInfo,
    access: Access,
}

impl Connector for Address {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "redis is out of reach");
            let mut driver = timeout(CONNECT, self.open()).await.map_err(late)??;
            let renewal = self.introduce(&driver).await?;
            Ok(Arc::new_cyclic(|opened| {
                driver.tasks.spawn(self.clone().renew(Weak::clone(opened), renewal));
                driver
            }) as Arc<dyn Transport>)
        })
    }
}

impl Address {
    pub(crate) fn new(info: ConnectionInfo, access: Access) -> Self {
        Self { info, access }
    }

    /// Opens a connection to whichever of the host's addresses answers first.
    async fn open(&self) -> RedisResult<Driver> {
        let (host, port) = match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => (host, *port),
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, insecure: false, .. } => (host, *port),
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
        let found = lookup_host((&**host, port)).await.map_err(|error| named(host, &error))?;
        let dialled = some(found.collect());
        if dialled.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address").into());
        }
        let dialled = dialled.into_iter().map(|address| Box::pin(dial(address)));
        let (stream, _) = select_ok(dialled).await?;
        stream.set_nodelay(true)?;
        let local = stream.local_addr().ok();
        let mut driver = match self.info.addr() {
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { .. } => self.secure(host, stream).await?,
            _ => Driver::new(stream),
        };
        driver.local = local;
        Ok(driver)
    }

    /// Speaks TLS with a host. Reads files, and so does not do it where others are served.
    #[cfg(feature = "tls")]
    async fn secure(&self, host: &str, stream: TcpStream) -> RedisResult<Driver> {
        let settings = self.access.tls.clone().unwrap_or_default();
        let config = spawn_blocking(move || settings.config()).await.map_err(io::Error::from)??;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        Ok(Driver::new(connector.connect(host.to_owned().try_into()?, stream).await?))
    }

    /// Sends credentials, and which database is asked for. Returns when to do so again.
    async fn introduce(&self, driver: &Driver) -> RedisResult<Option<Instant>> {
        let given = self.access.credentials().await?;
        let settings = self.info.redis_settings();
        let mut commands = Vec::new();
        let user = given.as_ref().and_then(|given| given.user.as_deref()).or(settings.username());
        let password = given.as_ref().map(|given| &*given.password).or(settings.password());
        if let Some(password) = password {
            commands.push(cmd("AUTH").arg(user).arg(password).clone());
        }
        if settings.db() != 0 {
            commands.push(cmd("SELECT").arg(settings.db()).clone());
        }
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "redis does not answer");
        let sent = driver.send(commands.into_iter().collect());
        timeout(HANDSHAKE, sent).await.map_err(late)??;
        Ok(given.and_then(|given| given.renewal))
    }

    /// Shows Redis new credentials before those of a connection end. If there are none, or Redis refuses them, the connection is as good
    /// as before, and its end tells why there is no other.
    async fn renew(self, driver: Weak<Driver>, mut renewal: Option<Instant>) {
        while let Some(at) = renewal {
            sleep_until(at.max(Instant::now() + RENEWED)).await;
            let Some(driver) = driver.upgrade() else { return };
            renewal = self.introduce(&driver).await.unwrap_or(renewal);
        }
    }
}

fn named(what: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Chooses some of a host's addresses at random.
fn some(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_by_cached_key(|_| random::scatter());
    addresses.truncate(DIALLED);
    addresses
}

async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(address).await.map_err(|error| named(address, &error))
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
    use std::collections::HashSet;

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
}
