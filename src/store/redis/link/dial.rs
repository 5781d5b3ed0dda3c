//! Opens connections: by TCP, with TLS or to a Unix socket.
//!
//! All other files but `pump` work with [`Dial`] and [`Wire`]. So a model of Redis can take the network's place, and the
//! whole protocol can be run with any delays and losses.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, pipe};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

use super::pump::Pump;
use super::resp::Packed;
use super::wire::Wire;
use crate::store::BoxFuture;

/// How long a TCP connection may take.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);

/// Opens connections to one address.
pub(crate) trait Dial: fmt::Debug + Send + Sync {
    /// Opens a connection. The caller has to find out which Redis process answers on it.
    fn dial(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Wire>>>;
}

/// The address of a real server.
pub(crate) struct Address(pub(crate) ConnectionInfo);

impl Dial for Address {
    fn dial(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Wire>>> {
        Box::pin(async move {
            let pump = match self.0.addr() {
                ConnectionAddr::Tcp(host, port) => Pump::new(tcp(host, *port).await?),
                #[cfg(feature = "tls")]
                ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
                    Pump::new(tls(host, tcp(host, *port).await?).await?)
                }
                #[cfg(unix)]
                ConnectionAddr::Unix(path) => {
                    Pump::new(tokio::net::UnixStream::connect(path).await?)
                }
                _ => return Err(unsupported()),
            };
            self.introduce(&pump).await?;
            Ok(Arc::new(pump) as Arc<dyn Wire>)
        })
    }
}

impl Address {
    /// Says who asks, and for which database.
    async fn introduce(&self, wire: &impl Wire) -> RedisResult<()> {
        let (settings, mut commands) = (self.0.redis_settings(), pipe());
        if let Some(password) = settings.password() {
            commands.cmd("AUTH").arg(settings.username()).arg(password);
        }
        if settings.db() != 0 {
            commands.cmd("SELECT").arg(settings.db());
        }
        if !commands.is_empty() {
            wire.send(Packed::from(&commands)).await?;
        }
        Ok(())
    }
}

/// Connects to whichever of a host's addresses answers first.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    for address in lookup_host((host, port)).await? {
        attempts.spawn(TcpStream::connect(address));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt? {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Speaks TLS on a connection to a host whose certificate the system trusts.
#[cfg(feature = "tls")]
async fn tls(
    host: &str,
    tcp: TcpStream,
) -> RedisResult<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let config =
        rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())?;
    Ok(tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await?)
}

fn unsupported() -> RedisError {
    RedisError::from((ErrorKind::InvalidClientConfig, "no such connection can be made here"))
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.redis_settings().db() {
            0 => write!(f, "{}", self.0.addr()),
            database => write!(f, "{}/{database}", self.0.addr()),
        }
    }
}
