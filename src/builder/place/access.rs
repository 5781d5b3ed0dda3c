//! What Redis is reached with, beside what its URL says.

use super::Place;
use crate::builder::Builder;
use crate::error::SettingError;
use crate::store::link::credentials::CredentialsProvider;
#[cfg(feature = "tls")]
use crate::store::link::tls::TlsSettings;

/// What Redis is reached with, beside what its URL says.
impl Builder {
    /// Asks this for user and password whenever a connection to Redis is made: for passwords that are rotated, and tokens that
    /// [end](crate::access::Credentials::expires_in), before which the connection is made anew. Sentinels are told what the URL
    /// says. Without any, answers are unknown, and [`state`](crate::BloomGuard::state) says why.
    ///
    /// Defaults to what the URL says; one with a password is an error then.
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.place.access.set_credentials(provider);
        self.judge("credentials", Ok(()))
    }

    /// Makes TLS connections with these settings: a certificate authority of one's own, a certificate to show. With `rediss://`,
    /// `rediss+sentinel://` (to the Sentinels, too) and `rediss+cluster://`; an error with others.
    ///
    /// Defaults to the system's root certificates, and none to show.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, settings: TlsSettings) -> Self {
        self.place.access.set_tls(settings);
        self.judge("tls", Ok(()))
    }
}

impl Place {
    /// Has Redis reached so, wherever it is.
    pub(super) fn reach(&mut self) -> Result<(), SettingError> {
        if let Some(redis) = &mut self.redis {
            *redis = redis.with(&self.access)?;
        }
        match &mut self.foreign {
            Some(filter) => filter.reach_with(&self.access),
            None => Ok(()),
        }
    }
}
