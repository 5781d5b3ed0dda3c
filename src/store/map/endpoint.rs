//! Where Redis is: a URL that has been read.

use std::fmt;
use std::sync::Arc;

use ::redis::{ConnectionAddr, ConnectionInfo};

use crate::error::SettingError;
use crate::store::link::connector::{Access, Address, Connector};

#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) place: Place,
    /// How to connect to the server. Where others name it, its address is left open.
    pub(super) server: ConnectionInfo,
    pub(super) access: Access,
    pub(crate) dial: Dial,
}

#[derive(Clone)]
pub(super) enum Place {
    /// At the URL's address.
    Address,
    /// Where these Sentinels say, which know the primary by this name.
    Sentinels(Vec<ConnectionInfo>, Arc<str>),
    /// Where these nodes of a cluster say.
    Cluster(Vec<Server>),
}

/// Returns a connector to a server. The simulation has its own.
pub(crate) type Dial = fn(ConnectionInfo, Access) -> Arc<dyn Connector>;

impl Endpoint {
    pub(super) fn new(place: Place, server: ConnectionInfo) -> Self {
        let dial: Dial = |server, access| Arc::new(Address::new(server, access));
        Self { place, server, access: Access::default(), dial }
    }

    /// Returns the same endpoint with this access. Fails if the URL cannot have that beside it.
    pub(crate) fn with(&self, access: &Access) -> Result<Self, SettingError> {
        access.judge(&self.server)?;
        Ok(Self { access: access.clone(), ..self.clone() })
    }

    pub(super) fn dial(&self, server: &Server) -> Arc<dyn Connector> {
        let by_tls = matches!(self.server.addr(), ConnectionAddr::TcpTls { .. });
        let server = self.server.clone().set_addr(server.clone().addr(by_tls));
        (self.dial)(server, self.access.clone())
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.place, Place::Cluster(_))
    }

    /// Returns the user that the URL names, or Redis's own.
    #[cfg(feature = "cli")]
    pub(crate) fn user(&self) -> &str {
        self.server.redis_settings().username().unwrap_or("default")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Server {
    pub(super) fn addr(self, tls: bool) -> ConnectionAddr {
        let Self { host, port } = self;
        match tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}
