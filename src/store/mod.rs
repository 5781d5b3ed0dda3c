//! Where filters, recent inserts and nulls live.
//!
//! [`Store`] answers requests, [`Build`] runs the steps of one rebuild. The stores in this process and in Redis run the same protocol;
//! the third has filters that other systems write.

pub(crate) mod clock;
mod condition;
#[cfg(feature = "redis")]
pub(crate) mod foreign;
#[cfg(feature = "redis")]
pub(crate) mod link;
mod lookup;
#[cfg(feature = "redis")]
pub(crate) mod map;
pub(crate) mod memory;
mod progress;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod scan;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

#[cfg(feature = "redis")]
use self::foreign::ForeignStore;
use self::memory::MemoryStore;
use self::memory::build::MemoryBuild;
#[cfg(feature = "redis")]
use self::redis::{RedisBuild, Shards};
use self::scan::{Filled, Scan};
use crate::error::{RebuildError, StoreError};
use crate::filter::{Generation, Sizing};
use crate::id::{Id, KeyedDigest};
use crate::mode::SharedMode;
use crate::verdict::Doubt;

pub(crate) use condition::{Condition, FleetChange, FleetView, SeenMetadata, Survey};
pub use condition::{CopyState, LiveFilter, Record, ShardsState};
pub(crate) use lookup::{Answer, BoxFuture, Copied, Lookup, Lookups, NewNull, NullClaim, Sought};
pub use lookup::{Inserted, Removed};
pub(crate) use progress::Progress;
pub use progress::{RebuildReport, RebuildStatus, RebuildStep};

pub(crate) enum Store {
    Memory(Arc<MemoryStore>),
    #[cfg(feature = "redis")]
    Redis(Arc<Shards>),
    /// The filter is another system's.
    #[cfg(feature = "redis")]
    Foreign(ForeignStore),
    #[cfg(test)]
    Gated(tests::Gated),
}

#[cfg(feature = "redis")]
const NO_FLEET: &str = "the guard keeps nothing beside another system's filter that all processes go by: set_mode in each";

/// Asks the store; answers otherwise where the filter is another system's.
macro_rules! ask {
    ($self:ident, $store:ident => $ask:expr) => {
        ask!($self, $store => $ask, $store => $ask)
    };
    ($self:ident, $store:ident => $ask:expr, $foreign:pat => $otherwise:expr) => {
        match $self {
            Self::Memory($store) => $ask,
            #[cfg(feature = "redis")]
            Self::Redis($store) => $ask,
            #[cfg(feature = "redis")]
            Self::Foreign($foreign) => $otherwise,
            #[cfg(test)]
            Self::Gated($store) => $ask,
        }
    };
}

#[cfg_attr(
    not(feature = "redis"),
    expect(unused_variables, reason = "the store in this process needs fewer")
)]
impl Store {
    pub(crate) fn spawn(&self, tasks: &mut JoinSet<()>) {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(shards) => shards.spawn(tasks),
            #[cfg(feature = "redis")]
            Self::Foreign(store) => store.spawn(tasks),
            _ => {}
        }
    }

    /// Returns an id's digest, if one was made, and whether this process's copy of the filter holds the id.
    pub(crate) fn copied(&self, id: &Id) -> (Option<KeyedDigest>, Option<Copied>) {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(shards) => shards.copied(id),
            _ => (None, None),
        }
    }

    /// Looks ids up together. One alone need not wait for a batch.
    #[inline]
    pub(crate) fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        ask!(self, store => store.check(ids, now))
    }

    /// Asks the store itself for an id, and not this process's copy.
    pub(crate) async fn look_up(&self, id: &Id) -> Lookup {
        #[cfg(feature = "redis")]
        if let Self::Redis(shards) = self {
            return shards.look_up(id).await;
        }
        self.check(&[(id, None)], Instant::now()).answer().await[0]
    }

    /// Drops this process's copy if it lacks an id that the filter holds.
    pub(crate) async fn audit_copy(&self, id: &Id) {
        #[cfg(feature = "redis")]
        if let Self::Redis(shards) = self {
            shards.audit_copy_of(id).await;
        }
    }

    pub(crate) async fn add(&self, ids: Vec<Id>) -> Result<Inserted, StoreError> {
        ask!(self, store => store.add(ids).await, store => store.add(ids).await.map(|()| Inserted::Perhaps))
    }

    /// Remembers that an id was missing, unless a create of it can have begun since. None says that the store failed.
    pub(crate) fn remember(&self, id: &Id, null: NewNull) -> Answer<Option<Removed>> {
        // An id that another program inserts would still be refused.
        ask!(self, store => store.remember(id, null), _ => Answer::Ready(Some(Removed::Withheld)))
    }

    pub(crate) async fn remove(&self, id: &Id, ttl: Duration) -> Result<Removed, StoreError> {
        ask!(self, store => store.remove(id, ttl).await, _ => Ok(Removed::Withheld))
    }

    /// Puts the live filter out of use for all processes, if it is still of this generation: it lacks an id that exists. One that took
    /// a disproved filter's place stays in use until it lacks a second id: another rebuild at once would miss both again. Returns why
    /// the filter is out of use, if this call ended it.
    pub(crate) async fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> Result<Option<Doubt>, StoreError> {
        ask!(self, store => store.distrust(id, generation).await)
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn foreign(&self) -> Option<&ForeignStore> {
        if let Self::Foreign(store) = self { Some(store) } else { None }
    }

    pub(crate) fn condition(&self) -> Condition {
        ask!(self, store => store.condition())
    }

    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        ask!(self, store => store.survey().await)
    }

    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        ask!(self, store => store.view_fleet().await, foreign => Err(foreign.unfit(NO_FLEET)))
    }

    pub(crate) fn fleet_mode(&self) -> Arc<SharedMode> {
        ask!(self, store => store.fleet_mode(), _ => Arc::default())
    }

    /// Changes how all processes act. It may hold for a while and then be overtaken: by another call's mode, other metadata, or an
    /// older filter.
    pub(crate) async fn change_fleet(&self, change: FleetChange) -> Result<(), StoreError> {
        ask!(self, store => store.change_fleet(change).await, foreign => Err(foreign.unfit(NO_FLEET)))
    }

    /// Begins a rebuild, unless another one holds the lease. Of several shards it rebuilds those that are not trusted, or were built
    /// before this moment of the store's clock, µs.
    pub(crate) async fn begin(&self, before_us: i64) -> Result<Option<Build>, StoreError> {
        Ok(match self {
            Self::Memory(store) => MemoryBuild::begin(store).map(Build::Memory),
            #[cfg(feature = "redis")]
            Self::Redis(shards) => RedisBuild::begin(shards, before_us).await?.map(Build::Redis),
            #[cfg(feature = "redis")]
            Self::Foreign(store) => {
                return Err(store.unfit("only the system that writes it builds it"));
            }
            #[cfg(test)]
            Self::Gated(store) => MemoryBuild::begin(store).map(Build::Memory),
        })
    }
}

/// One rebuild under way. Each step is safe to be the last: the live filter stays as it is until *swap*.
pub(crate) enum Build {
    Memory(MemoryBuild),
    #[cfg(feature = "redis")]
    Redis(RedisBuild),
}

macro_rules! step {
    ($self:ident, $build:ident => $step:expr) => {
        step!($self, $build => $step, $build => $step)
    };
    ($self:ident, $memory:pat => $here:expr, $build:ident => $in_redis:expr) => {
        match $self {
            Self::Memory($memory) => $here,
            #[cfg(feature = "redis")]
            Self::Redis($build) => $in_redis,
        }
    };
}

#[cfg_attr(
    not(feature = "redis"),
    expect(unused_variables, reason = "the store in this process needs fewer")
)]
impl Build {
    /// Returns how many ids the present filter was built from.
    pub(crate) fn previous(&self) -> Option<u64> {
        step!(self, build => build.previous, build => build.previous())
    }

    /// Keeps the lease for as long as it is polled. A failure is harmless: the lease only saves work.
    pub(crate) fn keep_lease(&self) -> BoxFuture<'static, ()> {
        step!(self, _ => Box::pin(std::future::pending()), build => Box::pin(build.keep_lease()))
    }

    /// Notes in the store what the source reads. Returns what is noted there if that is something else, unless a loss is
    /// accepted.
    pub(crate) async fn identify(
        &mut self,
        source: &str,
        accepts_loss: bool,
    ) -> Result<Option<String>, StoreError> {
        step!(self, _ => Ok(None), build => build.identify(source, accepts_loss).await)
    }

    /// *Lease*: takes the lease and a token, and allocates a filter; returns for how many ids, or nothing if another rebuild holds the
    /// lease. From here on inserts go to the new filter, too. Fails if the store has no room for it.
    pub(crate) async fn lease(&mut self, sizing: Sizing) -> Result<Option<u64>, StoreError> {
        step!(self, build => build.lease(sizing).await.map(Some), build => build.lease(sizing).await)
    }

    /// *Recent*: returns once a scan may begin that misses nothing, and how many ids were read from the record of recent inserts.
    pub(crate) async fn read_recent(&mut self) -> Result<(Scan, u64), StoreError> {
        step!(self, build => build.read_recent().await)
    }

    /// *Upload* to *swap*: puts what was scanned live, for each shard that is built.
    pub(crate) async fn put_live(
        &mut self,
        given: Vec<Filled>,
        progress: &Progress,
    ) -> Result<LiveFilter, RebuildError> {
        step!(self, build => Ok(build.put_live(given, progress)?), build => build.put_live(given, progress).await)
    }

    /// Gives the lease back, whatever became of the rebuild, and frees what is not live.
    pub(crate) async fn release(self) {
        step!(self, build => drop(build), build => build.release().await);
    }
}

#[cfg(test)]
pub(crate) mod tests;
