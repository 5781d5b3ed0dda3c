//! Where Redis is: a URL that has been read.

use std::sync::Arc;

use ::redis::{Client, ConnectionAddr, ConnectionInfo, RedisError};

use super::sentinel_url;
use crate::error::SettingError;
use crate::store::link::connector::{Address, Connector};

/// Where Redis is.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint(pub(crate) Arc<dyn Connector>);

impl Endpoint {
    /// Reads a `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://` or `rediss+sentinel://` URL.
    pub(crate) fn parse(url: &str) -> Result<Self, SettingError> {
        if ["rediss:", "rediss+"].iter().any(|tls| url.starts_with(tls)) && !cfg!(feature = "tls") {
            return Err(SettingError::TlsFeature);
        }
        #[cfg(feature = "tls")]
        choose_crypto();
        let connector: Result<Arc<dyn Connector>, String> = if sentinel_url::names_sentinels(url) {
            sentinel_url::parse(url, server).map(|sentinels| Arc::new(sentinels) as _)
        } else {
            server(url).map(|server| Arc::new(Address(server)) as _)
        };
        connector.map(Self).map_err(|reason| SettingError::RedisUrl { reason })
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
