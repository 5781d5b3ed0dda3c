//! What a connection is opened with, beside what its URL says.

use std::io;
use std::sync::Arc;

#[cfg(feature = "tls")]
use ::redis::ConnectionAddr;
use ::redis::ConnectionInfo;

use super::credentials::{Credentials, CredentialsProvider, Provider};
#[cfg(feature = "tls")]
use super::tls::TlsSettings;
use crate::error::SettingError;

#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    credentials: Option<Arc<Provider>>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Arc<TlsSettings>>,
}

impl Access {
    pub(crate) fn set_credentials(&mut self, provider: impl CredentialsProvider) {
        self.credentials = Some(Arc::new(Provider::new(provider)));
    }

    #[cfg(feature = "tls")]
    pub(crate) fn set_tls(&mut self, tls: TlsSettings) {
        self.tls = Some(Arc::new(tls));
    }

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
                return Err(SettingError::NoEffect { setting: "tls", place: "a redis:// url" });
            }
            tls.judge()?;
        }
        Ok(())
    }

    /// The same for Sentinels, which have credentials of their own.
    pub(crate) fn to_sentinels(&self) -> Self {
        let mut access = self.clone();
        access.credentials = None;
        access
    }

    pub(crate) async fn credentials(&self) -> io::Result<Option<Credentials>> {
        match &self.credentials {
            Some(provider) => provider.credentials().await.map(Some),
            None => Ok(None),
        }
    }
}
