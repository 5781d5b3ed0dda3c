//! Where a guard's filter is, with the crate feature `redis`: in a Redis, or in this process.

mod access;
mod registry;
mod setters;
mod tuning;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::background::Background;
use crate::error::SettingError;
use crate::middleware::layer::BloomGuard;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::foreign::ForeignStore;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::link::access::Access;
use crate::store::map::endpoint::Endpoint;
use crate::store::memory::MemoryStore;
use crate::store::redis::Shards;

/// Where the filter is, and whose.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) redis: Option<Endpoint>,
    /// What it is reached with, beside what its URL says.
    access: Access,
    /// Another system's, in the place of the guard's own.
    foreign: Option<ForeignFilter>,
}

/// What has no effect on a filter in this process.
const IGNORED_IN_PROCESS: &[&str] = &[
    "accept_eviction",
    "check_deadline",
    "copy_limit",
    "credentials",
    "foreign",
    "settle",
    "shards",
    "tls",
];
/// What has no effect on a filter that another system writes: it has no nulls and no record of recent inserts, is neither built nor copied here, and does not settle.
const IGNORED_BY_FOREIGN: &[&str] = &[
    "accept_eviction",
    "copy_limit",
    "longest_transaction",
    "rebuild",
    "secret_key",
    "settle",
    "shards",
];

impl Place {
    /// Makes the store of a guard, if nothing is wrong with its settings.
    pub(super) fn store(
        &mut self,
        settings: &Settings,
        called: &BTreeSet<&'static str>,
        problems: Vec<(&'static str, SettingError)>,
    ) -> Result<Store, Vec<SettingError>> {
        let mut problems: Vec<_> = problems.into_iter().map(|(_, problem)| problem).collect();
        problems.extend(self.reach().err());
        problems.extend(self.wrong_with(settings));
        let (place, ignored) = self.ignores(called);
        let ignored = called.iter().filter(|setting| ignored.contains(setting));
        problems.extend(ignored.map(|setting| SettingError::NoEffect { setting, place }));
        // Values that are out of bounds make no store.
        if problems.is_empty() {
            self.made(settings).map_err(|problem| vec![problem])
        } else {
            Err(problems)
        }
    }

    fn made(&self, settings: &Settings) -> Result<Store, SettingError> {
        Ok(match (&self.redis, &self.foreign) {
            (None, _) => Store::Memory(Arc::new(MemoryStore::new(settings)?)),
            (Some(redis), None) => Store::Redis {
                shards: Arc::new(Shards::new(settings, redis)),
                background: Background::default(),
            },
            (Some(redis), Some(filter)) => {
                if filter.endpoints(redis).any(|one| matches!(one, Endpoint::Cluster(_))) {
                    // Its key and what the guard keeps beside it would be in different slots.
                    return Err(SettingError::Combination {
                        reason: "a foreign filter is in one redis, not in a cluster: redis+cluster:// is for the guard's own",
                    });
                }
                Store::Foreign(ForeignStore::new(settings, filter, redis))
            }
        })
    }

    /// Returns what does not go with where the filter is.
    fn wrong_with(&self, settings: &Settings) -> Vec<SettingError> {
        let mut wrong = Vec::new();
        let is_own = self.foreign.is_none();
        let has_shards = is_own && self.redis.is_some() && settings.sizing.shards > 1;
        let lacks_key = has_shards && settings.secret_key.is_none();
        // By its digest an id is told to be in a shard, before Redis is asked.
        wrong.extend(lacks_key.then_some(SettingError::Combination {
            reason: "shards need a secret_key, the same in all processes",
        }));
        wrong
    }

    /// Returns where the filter is, and the setters that have no effect there.
    fn ignores(&self, called: &BTreeSet<&'static str>) -> (&'static str, &'static [&'static str]) {
        match (called.contains("redis"), called.contains("in_process"), &self.foreign) {
            (true, _, Some(_)) => ("a filter that another system writes", IGNORED_BY_FOREIGN),
            (false, true, _) => ("a filter in this process", IGNORED_IN_PROCESS),
            (true, _, None) | (false, false, _) => ("a filter in redis", &[]),
        }
    }

    /// Notes that a guard was built.
    pub(super) fn note(&self, guard: &BloomGuard) {
        if let Some(redis) = &self.redis {
            registry::note(guard, redis);
        }
    }
}
