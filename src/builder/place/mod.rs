//! Where a guard's filter is, with the crate feature `redis`: in a Redis, or in this process.

mod setters;

use std::sync::Arc;

use crate::background::Background;
use crate::error::SettingError;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::foreign::ForeignStore;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::link::access::Access;
use crate::store::map::endpoint::Endpoint;
use crate::store::memory::MemoryStore;
use crate::store::redis::Shards;

#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The servers that its shards are spread over; none if the filter is in this process.
    pub(crate) servers: Vec<Endpoint>,
    /// What they are reached with, beside what their URLs say.
    access: Access,
    /// Another system's filter, in place of the guard's own.
    foreign: Option<ForeignFilter>,
}

/// Settings without effect on a filter in this process.
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
/// Settings without effect on a filter that another system writes: it has no nulls and no record, is not built here, and does not settle.
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
    /// Makes the store, or returns what is wrong with the settings; `judged` are those that were called.
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
        let is_own = !self.servers.is_empty() && self.foreign.is_none();
        // By its digest an id is told to be in a shard, before Redis is asked.
        if is_own && settings.sizing.shards > 1 && settings.secret_key.is_none() {
            let reason = "shards need a secret_key, the same in all processes";
            problems.push(SettingError::Combination { reason });
        }
        if self.servers.len() > settings.sizing.shards as usize {
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

    fn reach(&mut self) -> Result<(), SettingError> {
        for server in &mut self.servers {
            *server = server.with(&self.access)?;
        }
        self.foreign.as_mut().map_or(Ok(()), |filter| filter.reach_with(&self.access))
    }

    fn made(&self, settings: &Settings) -> Result<Store, SettingError> {
        Ok(match (&self.servers[..], &self.foreign) {
            ([], _) => Store::Memory(Arc::new(MemoryStore::new(settings)?)),
            (servers, None) => Store::Redis {
                shards: Arc::new(Shards::new(settings, servers)),
                background: Background::default(),
            },
            ([redis, ..], Some(filter)) => {
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
}
