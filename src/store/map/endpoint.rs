//! Where Redis is: a URL that has been read.

use std::fmt;
use std::sync::Arc;

use ::redis::{Client, ConnectionAddr, ConnectionInfo, RedisError};

use super::cluster::{Cluster, Slots};
use super::url::{Hosts, Parts};
use crate::error::SettingError;
use crate::store::link::access::Access;
use crate::store::link::connector::{Address, Connector};

/// Where Redis is.
#[derive(Clone)]
pub(crate) enum Endpoint {
    /// At an address, or where Sentinels say.
    Primary(Arc<dyn Connector>),
    Cluster(Arc<Cluster>),
}

impl Endpoint {
    /// Reads a URL: see [`Builder::redis`](crate::Builder::redis).
    pub(crate) fn parse(url: &str) -> Result<Self, SettingError> {
        if ["rediss:", "rediss+"].iter().any(|tls| url.starts_with(tls)) && !cfg!(feature = "tls") {
            return Err(SettingError::TlsFeature);
        }
        #[cfg(feature = "tls")]
        choose_crypto();
        let endpoint = match Parts::of(url) {
            Some(parts) if parts.hosts_are == Hosts::Sentinels => {
                parts.sentinels(server).map(|sentinels| Self::Primary(Arc::new(sentinels)))
            }
            Some(parts) => parts.cluster(server).map(|cluster| Self::Cluster(Arc::new(cluster))),
            None => server(url)
                .map(|server| Self::Primary(Arc::new(Address::new(server, Access::default())))),
        };
        endpoint.map_err(|reason| SettingError::RedisUrl { reason })
    }

    /// Returns the same place with this access.
    ///
    /// # Errors
    ///
    /// It does not go with what the URL says.
    pub(crate) fn with(&self, access: &Access) -> Result<Self, SettingError> {
        Ok(match self {
            Self::Primary(connector) => {
                Self::Primary(connector.with(access)?.unwrap_or_else(|| Arc::clone(connector)))
            }
            Self::Cluster(cluster) => Self::Cluster(Arc::new(cluster.with(access)?)),
        })
    }

    /// Returns what connects to the server that has a key. Which key that is may change.
    pub(crate) fn connector(
        &self,
        key: impl Fn() -> Option<Arc<str>> + Send + Sync + 'static,
    ) -> Arc<dyn Connector> {
        match self {
            Self::Primary(connector) => Arc::clone(connector),
            Self::Cluster(cluster) => Arc::new(cluster.to_slot_of(key)),
        }
    }

    /// Returns what tells on which nodes keys are, where there are several.
    pub(crate) fn slots(&self, keys: Arc<[Arc<str>]>) -> Option<Slots> {
        match self {
            Self::Primary(_) => None,
            Self::Cluster(cluster) => Some(cluster.slots_of(keys)),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary(connector) => connector.fmt(f),
            Self::Cluster(cluster) => cluster.fmt(f),
        }
    }
}

/// Reads the URL of one server.
fn server(url: &str) -> Result<ConnectionInfo, String> {
    // The client finds more mistakes than the URL's parser does.
    let client = Client::open(url).map_err(|error| reason(url, &error))?;
    let info = client.get_connection_info();
    if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
        return Err("it asks for certificates not to be checked".to_owned());
    }
    Ok(info.clone())
}

/// Says what is wrong with a URL without quoting it, because it may hold a password.
fn reason(url: &str, error: &RedisError) -> String {
    const SCHEMES: [&str; 7] =
        ["redis:", "rediss:", "redis+unix:", "valkey:", "valkeys:", "valkey+unix:", "unix:"];
    if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return "it has another scheme, or none".to_owned();
    }
    // The client's description comes first; what follows may quote the URL.
    let told = error.to_string();
    match told.split(" - ").next().unwrap_or_default() {
        "" | "Redis URL did not parse" => {
            "it is no url (in a password, / ? # and @ are percent-encoded)".to_owned()
        }
        description => description.to_lowercase(),
    }
}

/// Chooses the cryptography of rustls for the process, if the application has not. With more than one
/// provider compiled in and none chosen, the first connection would panic.
#[cfg(feature = "tls")]
fn choose_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been first; then its choice stands.
        let _chosen_elsewhere = rustls::crypto::ring::default_provider().install_default();
    }
}
