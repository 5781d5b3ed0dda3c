//! What Redis is reached with, beside what its URL says.

use super::Place;
use crate::builder::Builder;
use crate::error::SettingError;
use crate::store::link::credentials::CredentialsProvider;
#[cfg(feature = "tls")]
use crate::store::link::tls::TlsSettings;

/// What Redis is reached with, beside what its URL says.
impl Builder {
    /// Asks this for user and password whenever a connection to Redis is made: for passwords that are rotated, and tokens that end.
    /// With Sentinels and in a cluster they are for the servers that have the filter; Sentinels are told what the URL says.
    ///
    /// A connection whose credentials [end](crate::Credentials::expires_in) goes on by a new one, made before; nothing is refused
    /// or lost by that. If there are no new ones, it stays as it is for as long as Redis bears it. Without any,
    /// [`state`](crate::BloomGuard::state) says why, and it is tried again: answers are [unknown](crate::Refusal::CREDENTIALS)
    /// meanwhile, and what was found lately passes.
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
