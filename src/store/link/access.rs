//! What a connection is opened with, beside what its URL says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::ConnectionInfo;

use super::credentials::{ASKED, Credentials, CredentialsProvider, Provider};
use crate::error::SettingError;

/// What a connection is opened with, beside what its URL says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    credentials: Option<Arc<Provider>>,
}

impl Access {
    pub(crate) fn set_credentials(&mut self, provider: impl CredentialsProvider) {
        self.credentials = Some(Arc::new(Provider::new(provider)));
    }

    /// Whether it changes nothing.
    pub(crate) fn is_plain(&self) -> bool {
        self.credentials.is_none()
    }

    /// Says what a URL cannot have beside it.
    pub(crate) fn judge(&self, url: &ConnectionInfo) -> Result<(), SettingError> {
        if self.credentials.is_some() && url.redis_settings().password().is_some() {
            return Err(SettingError::CredentialsTwice);
        }
        Ok(())
    }

    /// The same for Sentinels, which have credentials of their own.
    pub(crate) fn to_sentinels(&self) -> Self {
        Self { credentials: None, ..self.clone() }
    }

    /// Returns what the provider gives, if there is one.
    pub(crate) async fn credentials(&self) -> io::Result<Option<Credentials>> {
        match &self.credentials {
            Some(provider) => provider.credentials().await.map(Some),
            None => Ok(None),
        }
    }

    /// Has the provider asked again: Redis does not take what it gave.
    pub(super) async fn forget(&self) {
        if let Some(provider) = &self.credentials {
            provider.forget().await;
        }
    }

    /// Returns how long it takes at most, before a connection is opened.
    pub(crate) fn patience(&self) -> Duration {
        if self.credentials.is_some() { ASKED } else { Duration::ZERO }
    }
}
