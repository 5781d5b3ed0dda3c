//! What Redis is reached with, beside what its URL says.

use super::Builder;
use crate::error::SettingError;
use crate::store::link::credentials::CredentialsProvider;

const CREDENTIALS: &str = "credentials";

/// What Redis is reached with, beside what its URL says.
impl Builder {
    /// Asks this for user and password whenever a connection to Redis is made: for passwords that are rotated, and tokens that end.
    /// With Sentinels and in a cluster they are for the servers that have the filter; Sentinels are told what the URL says.
    ///
    /// A connection whose credentials [end](crate::Credentials::expires_in) goes on by a new one, made before; nothing is refused
    /// or lost by that. If there are no new ones, it stays as it is for as long as Redis bears it. Without any,
    /// [`state`](crate::BloomGuard::state) says why, and it is tried again: answers are [unknown](crate::Doubt::Credentials)
    /// meanwhile, and what was found lately passes.
    ///
    /// Defaults to what the URL says; one with a password is an error then.
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.access.set_credentials(provider);
        self
    }

    /// Has Redis reached so, wherever it is.
    pub(super) fn accessed(mut self) -> Self {
        if self.access.is_plain() {
            return self;
        }
        let is_named =
            self.redis.is_some() || self.problems.iter().any(|(name, _)| *name == "redis");
        if !is_named {
            return self.judge(CREDENTIALS, Err(SettingError::CredentialsWithoutRedis));
        }
        let reached = self.reach();
        self.judge(CREDENTIALS, reached)
    }

    fn reach(&mut self) -> Result<(), SettingError> {
        if let Some(redis) = &mut self.redis {
            *redis = redis.with(&self.access)?;
        }
        self.foreign.as_mut().map_or(Ok(()), |foreign| foreign.reach_with(&self.access))
    }
}
