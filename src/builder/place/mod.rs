//! Where a guard's filter is, with the crate feature `redis`: in a Redis, or in this process.

mod setters;

use std::sync::Arc;

use crate::error::SettingError;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::foreign::ForeignStore;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::link::connector::Access;
use crate::store::map::endpoint::Endpoint;
use crate::store::memory::MemoryStore;
use crate::store::redis::Shards;

#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The servers that its shards are spread over; none if the filter is in this process.
    pub(crate) servers: Vec<Endpoint>,
    /// What they are reached with, beside what their URLs say.
    access: Access,
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
        mut self,
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
                let reason = format!("has no effect on {place}: leave it out");
                problems.push(SettingError::Invalid { setting, reason });
            }
        }
        let mut combination = |reason| problems.push(SettingError::Combination { reason });
        if self.servers.len() > settings.sizing.shards as usize {
            combination(
                "redis_each spreads shards: there must be at least as many `shards` as servers",
            );
        }
        let is_sharded = settings.sizing.shards > 1 && !self.servers.is_empty();
        match &mut self.foreign {
            Some(filter) => self.servers.append(&mut filter.others),
            // By its digest an id is told to be in a shard, before Redis is asked.
            None if is_sharded && settings.secret_key.is_none() => {
                combination("shards need a secret_key, the same in all processes");
            }
            None => {}
        }
        if self.foreign.is_some() && self.servers.iter().any(Endpoint::is_cluster) {
            // Its key and what the guard keeps beside it would be in different slots.
            combination(
                "a foreign filter is in one redis, not in a cluster: redis+cluster:// is for the guard's own",
            );
        }
        let servers = self.servers.iter().map(|server| server.with(&self.access));
        let servers = servers.collect::<Result<Vec<_>, _>>();
        problems.extend(servers.as_ref().err().cloned());
        // Values that are out of bounds make no store.
        let servers = servers.ok().filter(|_| problems.is_empty()).ok_or(problems)?;
        Ok(match self.foreign {
            _ if servers.is_empty() => Store::Memory(Arc::new(
                MemoryStore::new(settings).map_err(|problem| vec![problem])?,
            )),
            Some(filter) => Store::Foreign(ForeignStore::new(settings, &filter, &servers)),
            None => Store::Redis(Arc::new(Shards::new(settings, &servers))),
        })
    }
}
