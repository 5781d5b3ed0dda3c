//! A server that somebody has named.

use std::fmt;

use ::redis::{ConnectionAddr, ConnectionInfo};

use crate::store::link::access::Access;
use crate::store::link::connector::Address;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Server {
    /// Returns how to connect to it: as to another server.
    pub(super) fn address(&self, like: &ConnectionInfo, access: &Access) -> Address {
        let (host, port) = (self.host.clone(), self.port);
        let address = match like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                let (insecure, tls_params) = (*insecure, tls_params.clone());
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
