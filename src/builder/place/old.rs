//! What a guard is to move away from.

use std::fmt;

use crate::error::SettingError;
use crate::filter::Sizing;
use crate::id::SecretKey;
use crate::settings::{self, Settings};
use crate::store::foreign::filter::ForeignFilter;
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::keys::MOST_SHARDS;

/// A filter that a guard moves away from: [`Builder::migrate_from`](crate::Builder::migrate_from). Another system's, or a
/// guard's of another name, on another Redis, with another secret key, or in another number of shards.
///
/// For a guard's it states what the builder stated until then; what is not stated is as it is by default, but for the Redis.
#[derive(Debug)]
pub struct OldFilter(pub(super) Old);

#[derive(Debug)]
pub(super) enum Old {
    Foreign(Box<ForeignFilter>),
    Own(OwnFilter),
}

/// A guard's filter.
#[derive(Debug)]
pub(super) struct OwnFilter {
    name: String,
    redis: Option<Endpoint>,
    /// What is wrong with its URL.
    wrong: Option<SettingError>,
    secret_key: Option<SecretKey>,
    shards: u32,
}

impl OldFilter {
    /// A guard's filter of this name.
    pub fn named(name: impl Into<String>) -> Self {
        let own =
            OwnFilter { name: name.into(), redis: None, wrong: None, secret_key: None, shards: 1 };
        Self(Old::Own(own))
    }

    /// In the Redis at this URL. Another system's filter is in the guard's own Redis, and this says nothing of it.
    ///
    /// Defaults to the guard's own Redis.
    #[must_use]
    pub fn redis(self, url: &str) -> Self {
        self.at(Endpoint::parse(url))
    }

    pub(crate) fn at(self, endpoint: Result<Endpoint, SettingError>) -> Self {
        self.with(|own| match endpoint {
            Ok(redis) => (own.redis, own.wrong) = (Some(redis), None),
            Err(wrong) => own.wrong = Some(wrong),
        })
    }

    /// With this secret key.
    ///
    /// Defaults to the one in Redis.
    #[must_use]
    pub fn secret_key(self, key: SecretKey) -> Self {
        self.with(|own| own.secret_key = Some(key))
    }

    /// In so many shards.
    ///
    /// Defaults to one.
    #[must_use]
    pub fn shards(self, shards: u32) -> Self {
        self.with(|own| own.shards = shards)
    }

    fn with(mut self, set: impl FnOnce(&mut OwnFilter)) -> Self {
        if let Old::Own(own) = &mut self.0 {
            set(own);
        }
        self
    }
}

impl From<ForeignFilter> for OldFilter {
    fn from(filter: ForeignFilter) -> Self {
        Self(Old::Foreign(Box::new(filter)))
    }
}

impl fmt::Display for OwnFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.shards)
    }
}

impl OwnFilter {
    /// Returns what is wrong with it.
    pub(super) fn judge(&mut self) -> Result<(), SettingError> {
        settings::name(&self.name)?;
        shards(self.shards)?;
        if self.shards > 1 && self.secret_key.is_none() {
            return Err(SettingError::ShardsWithoutKey);
        }
        self.wrong.take().map_or(Ok(()), Err)
    }

    /// Returns where it is, if that is not the guard's own Redis.
    pub(super) fn redis(&mut self) -> Option<&mut Endpoint> {
        self.redis.as_mut()
    }

    /// Returns its settings and where it is, beside those of the guard's own filter.
    pub(super) fn beside(
        &self,
        settings: &Settings,
        redis: &Endpoint,
    ) -> Result<(Settings, Endpoint), SettingError> {
        let own = &settings.sizing;
        let sizing = Sizing::sharded(own.capacity(), own.rate(), self.shards)?;
        let endpoint = self.redis.clone().unwrap_or_else(|| redis.clone());
        let is_there = format!("{endpoint:?}") == format!("{redis:?}");
        if is_there && self.name == settings.name && self.shards == own.shards() {
            return Err(SettingError::MigratesToItself { name: self.name.clone() });
        }
        let (name, secret_key) = (self.name.clone(), self.secret_key.clone());
        Ok((Settings { name, secret_key, sizing, ..settings.clone() }, endpoint))
    }
}

/// Whether a filter can be in so many shards.
///
/// # Errors
///
/// [`SettingError::Shards`] when that is no power of two, or more than there can be.
pub(super) fn shards(value: u32) -> Result<(), SettingError> {
    let is_good = value.is_power_of_two() && value <= MOST_SHARDS;
    if is_good { Ok(()) } else { Err(SettingError::Shards { value, max: MOST_SHARDS }) }
}
