//! Where a guard's filter is, with the crate feature `redis`: in a Redis, or in this process.

mod access;
mod registry;
mod setters;
mod stores;
mod tuning;

use std::sync::Arc;

use super::here::Stores;
use crate::error::SettingError;
use crate::middleware::shared::Shared;
use crate::settings::Settings;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::link::access::Access;
use crate::store::map::endpoint::Endpoint;

/// Where the filter is, and whose.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) redis: Option<Endpoint>,
    /// What it is reached with, beside what its URL says.
    access: Access,
    /// Another system's, in the place of the guard's own.
    foreign: Option<ForeignFilter>,
}

impl Place {
    /// Makes the store of a guard, if nothing is wrong with its settings.
    pub(super) fn stores(
        &mut self,
        settings: &Settings,
        has_schedule: bool,
        mut problems: Vec<(&'static str, SettingError)>,
    ) -> Result<Stores, Vec<SettingError>> {
        let is_named = self.redis.is_some() || problems.iter().any(|(name, _)| *name == "redis");
        problems.extend(self.reach(is_named).err().map(|problem| ("access", problem)));
        let problems = problems.into_iter().map(|(_, problem)| problem);
        let wrong = self.wrong_with(settings, has_schedule);
        let problems: Vec<_> = problems.chain(wrong).collect();
        // Values that are out of bounds make no store.
        if problems.is_empty() {
            self.store(settings).map_err(|problem| vec![problem])
        } else {
            Err(problems)
        }
    }

    /// Returns what does not go with where the filter is.
    fn wrong_with(&self, settings: &Settings, has_schedule: bool) -> Vec<SettingError> {
        let mut wrong = Vec::new();
        let is_own = self.foreign.is_none();
        if settings.sizing.shards() > 1 {
            let without_key = settings.secret_key.is_none();
            wrong.extend(without_key.then_some(SettingError::ShardsWithoutKey));
            let is_here = is_own && self.redis.is_some();
            wrong.extend((!is_here).then_some(SettingError::ShardsElsewhere));
        }
        wrong.extend((has_schedule && !is_own).then_some(SettingError::ForeignSchedule));
        wrong
    }

    /// Whether other processes may have the filter, too.
    pub(super) const fn is_shared(&self) -> bool {
        self.redis.is_some()
    }

    /// Notes that a guard was built.
    pub(super) fn note(&self, guard: &Arc<Shared>) {
        if let Some(redis) = &self.redis {
            registry::note(guard, redis);
        }
    }
}
