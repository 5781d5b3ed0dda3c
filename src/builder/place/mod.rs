//! Where a guard's filter is, with the crate feature `redis`: in a Redis, or in this process.

mod setters;

use std::iter;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

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

/// Name and Redis of each guard, for as long as that lives.
static REGISTRY: Mutex<Vec<(String, Weak<Background>)>> = Mutex::new(Vec::new());

/// Where the filter is, and whose.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) redis: Option<Endpoint>,
    /// Further servers that its shards are spread over.
    others: Vec<Endpoint>,
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
    /// Makes the store of a guard, if nothing is wrong with its settings: with those that were called, as they were judged.
    pub(super) fn store(
        &mut self,
        settings: &Settings,
        judged: Vec<(&'static str, Result<(), SettingError>)>,
    ) -> Result<Store, Vec<SettingError>> {
        let called = |setter| judged.iter().any(|(called, _)| *called == setter);
        let (place, ignored) = match (called("redis"), called("in_process"), &self.foreign) {
            (true, _, Some(_)) => ("a filter that another system writes", IGNORED_BY_FOREIGN),
            (false, true, _) => ("a filter in this process", IGNORED_IN_PROCESS),
            (true, _, None) | (false, false, _) => ("a filter in redis", &[][..]),
        };
        let mut problems = Vec::new();
        for (setting, judged) in judged {
            problems.extend(judged.err());
            if ignored.contains(&setting) {
                problems.push(SettingError::NoEffect { setting, place });
            }
        }
        problems.extend(self.reach().err());
        let is_own = self.redis.is_some() && self.foreign.is_none();
        // By its digest an id is told to be in a shard, before Redis is asked.
        if is_own && settings.sizing.shards > 1 && settings.secret_key.is_none() {
            let reason = "shards need a secret_key, the same in all processes";
            problems.push(SettingError::Combination { reason });
        }
        if settings.sizing.shards as usize <= self.others.len() {
            let reason =
                "redis_each spreads shards: there must be at least as many `shards` as servers";
            problems.push(SettingError::Combination { reason });
        }
        // Values that are out of bounds make no store.
        if problems.is_empty() {
            self.made(settings).map_err(|problem| vec![problem])
        } else {
            Err(problems)
        }
    }

    /// Has Redis reached as the application said, wherever it is.
    fn reach(&mut self) -> Result<(), SettingError> {
        for redis in self.redis.iter_mut().chain(&mut self.others) {
            *redis = redis.with(&self.access)?;
        }
        self.foreign.as_mut().map_or(Ok(()), |filter| filter.reach_with(&self.access))
    }

    fn made(&self, settings: &Settings) -> Result<Store, SettingError> {
        Ok(match (&self.redis, &self.foreign) {
            (None, _) => Store::Memory(Arc::new(MemoryStore::new(settings)?)),
            (Some(redis), None) => Store::Redis {
                shards: {
                    let servers: Vec<_> = iter::once(redis).chain(&self.others).cloned().collect();
                    Arc::new(Shards::new(settings, &servers))
                },
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

    /// Notes a guard, and warns if there is one of this name on its Redis already. That is not refused: the protocol takes them
    /// for two processes, and an application that reads its settings anew, or whose tests run side by side, builds one while
    /// another lives.
    pub(super) fn note(&self, guard: &BloomGuard) {
        let Some(redis) = &self.redis else { return };
        let (name, redis) = (guard.guard.name(), format!("{redis:?}"));
        let key = format!("{name} {redis}");
        let mut registry = REGISTRY.lock();
        registry.retain(|(_, other)| other.strong_count() > 0);
        let is_second = registry.iter().any(|(other, _)| *other == key);
        registry.push((key, Arc::downgrade(&guard.background)));
        drop(registry);
        if is_second {
            tracing::warn!(
                parent: None,
                filter = &**name,
                redis,
                "another guard of this name lives in this process, with connections, a lane and ids found lately of its \
                 own: clone that one. If the two guard other records, each refuses what only the other's source gives: \
                 name them apart"
            );
        }
    }
}
