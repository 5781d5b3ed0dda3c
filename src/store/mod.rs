//! Where filters, recent inserts and nulls live.
//!
//! The seam between the guard and its stores. It is private. [`Store`] answers requests, [`Build`] runs the steps of one rebuild.
//! The stores in this process and in Redis run the same protocol; the third has filters that other systems write.

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

use tokio::time::Instant;

#[cfg(feature = "redis")]
use self::foreign::ForeignStore;
use self::memory::MemoryStore;
use self::memory::build::MemoryBuild;
#[cfg(feature = "redis")]
use self::redis::{RedisBuild, Shards};
#[cfg(feature = "redis")]
use crate::background::Background;
use crate::error::{RebuildError, StoreError};
use crate::filter::{Generation, Sizing};
use crate::id::{Digest, Id, KeyedDigest};
use crate::mode::SharedMode;

pub(crate) use condition::{Condition, FleetChange, FleetView, SeenMetadata, Survey};
pub use condition::{CopyState, LiveFilter, Record, ShardsState};
pub use lookup::Inserted;
pub(crate) use lookup::{
    Answer, BoxFuture, Copied, Distrusted, Lookup, Lookups, NewNull, NullClaim, Remembered, Sought,
};
pub(crate) use progress::Progress;
pub use progress::{RebuildReport, RebuildStatus, RebuildStep};

pub(crate) enum Store {
    Memory(Arc<MemoryStore>),
    /// Its background tasks end with it.
    #[cfg(feature = "redis")]
    Redis {
        shards: Arc<Shards>,
        background: Background,
    },
    /// The filter is another system's.
    #[cfg(feature = "redis")]
    Foreign(ForeignStore),
    #[cfg(test)]
    Gated(tests::Gated),
}

#[cfg(feature = "redis")]
const NO_FLEET: &str = "the guard keeps nothing beside another system's filter that all processes go by: set_mode in each";

/// Asks the store, whichever it is; or answers otherwise where the filter is another system's.
macro_rules! ask {
    ($self:ident, $store:ident => $ask:expr) => {
        ask!($self, $store => $ask, $store => $ask)
    };
    ($self:ident, $store:ident => $ask:expr, $foreign:pat => $otherwise:expr) => {
        match $self {
            Self::Memory($store) => $ask,
            #[cfg(feature = "redis")]
            Self::Redis { shards: $store, .. } => $ask,
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
    /// Starts what runs in the background, once; needs a Tokio runtime.
    pub(crate) fn start(&self) {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis { shards, background } => background.start(|tasks| shards.spawn(tasks)),
            #[cfg(feature = "redis")]
            Self::Foreign(store) => store.start(),
            _ => {}
        }
    }

    /// Says whether this process's copy of the filter holds an id, where there is a copy; returns also the digest that it took.
    pub(crate) fn copied(&self, id: &Id) -> (Option<KeyedDigest>, Option<Copied>) {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis { shards, .. } => shards.copied(id),
            _ => (None, None),
        }
    }

    /// The digest of an id, by which the log and Redis name it; none where there is no key, or not yet.
    pub(crate) fn digest(&self, id: &Id) -> Option<Digest> {
        ask!(self, store => store.digest(id), _ => None)
    }

    /// What is known of each of these ids, asked for together at this moment. One alone need not wait for a batch.
    #[inline]
    pub(crate) fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        ask!(self, store => store.check(ids, now))
    }

    /// What the store itself says of an id.
    pub(crate) async fn look_up(&self, id: &Id) -> Lookup {
        #[cfg(feature = "redis")]
        if let Self::Redis { shards, .. } = self {
            return shards.look_up(id).await;
        }
        self.check(&[(id, None)], Instant::now()).answer().await[0]
    }

    /// Looks whether this process's copy lacks an id that the filter holds, and drops it then.
    pub(crate) async fn audit_copy(&self, id: &Id) {
        #[cfg(feature = "redis")]
        if let Self::Redis { shards, .. } = self {
            shards.audit_copy_of(id).await;
        }
    }

    /// Acknowledges ids in every filter that needs them.
    pub(crate) async fn add(&self, ids: Vec<Id>) -> Result<Inserted, StoreError> {
        ask!(self, store => store.add(ids).await, store => store.add(ids).await.map(|()| Inserted::Perhaps))
    }

    /// Remembers that an id was missing, unless a create of it can have begun since.
    pub(crate) fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered> {
        // An id that another program inserts would still be refused.
        ask!(self, store => store.remember(id, null), _ => Answer::Ready(Remembered::Late))
    }

    /// Remembers that an id was deleted, under the same rule.
    pub(crate) async fn remove(&self, id: &Id, ttl: Duration) -> Result<Remembered, StoreError> {
        ask!(self, store => store.remove(id, ttl).await, _ => Ok(Remembered::Late))
    }

    /// Puts the live filter of an id out of use for everybody, if it is still of this generation: the id
    /// exists and was found missing from it. One that took the place of a disproved filter stays in use until a second id is
    /// found missing: another rebuild at once would miss both again.
    pub(crate) async fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> Result<Distrusted, StoreError> {
        ask!(self, store => store.distrust(id, generation).await)
    }

    /// Whether other processes may have the filter, too.
    pub(crate) const fn is_shared(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    /// Returns the store of a filter that another system writes.
    #[cfg(feature = "redis")]
    pub(crate) const fn foreign(&self) -> Option<&ForeignStore> {
        if let Self::Foreign(store) = self { Some(store) } else { None }
    }

    pub(crate) fn condition(&self) -> Condition {
        ask!(self, store => store.condition())
    }

    /// Asks how the store stands, in one round trip.
    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        ask!(self, store => store.survey().await)
    }

    /// Asks how the filter's processes stand. Fails where not all that know can say.
    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        ask!(self, store => store.view_fleet().await, foreign => Err(foreign.unfit(NO_FLEET)))
    }

    /// Returns the mode that all processes of the filter share, as it changes.
    pub(crate) fn fleet_mode(&self) -> Arc<SharedMode> {
        ask!(self, store => store.fleet_mode(), _ => Arc::default())
    }

    /// Changes how all processes act. Nothing was changed where it was overtaken: the mode was set by another call, the
    /// metadata are others, or an older filter is live.
    pub(crate) async fn change_fleet(&self, change: FleetChange) -> Result<(), StoreError> {
        ask!(self, store => store.change_fleet(change).await, foreign => Err(foreign.unfit(NO_FLEET)))
    }

    /// Looks at what is to be rebuilt; nothing where another rebuild holds the lease. A store of several filters rebuilds those
    /// that are not trusted, and those whose build began before this moment of the store's clock, µs.
    pub(crate) async fn begin(&self, before_us: i64) -> Result<Option<Build>, StoreError> {
        Ok(match self {
            Self::Memory(store) => MemoryBuild::begin(store).map(Build::Memory),
            #[cfg(feature = "redis")]
            Self::Redis { shards, .. } => {
                RedisBuild::begin(shards, before_us).await?.map(Build::Redis)
            }
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

#[cfg_attr(
    not(feature = "redis"),
    expect(unused_variables, reason = "the store in this process needs fewer")
)]
impl Build {
    /// How many ids the filter was built from that is there as the rebuild begins, in use or not.
    pub(crate) fn previous(&self) -> Option<u64> {
        match self {
            Self::Memory(build) => build.previous,
            #[cfg(feature = "redis")]
            Self::Redis(build) => build.previous(),
        }
    }

    /// Keeps the lease for as long as it is polled. A failure is harmless: the lease only saves work.
    pub(crate) fn keep_lease(&self) -> BoxFuture<'static, ()> {
        match self {
            Self::Memory(_) => Box::pin(std::future::pending()),
            #[cfg(feature = "redis")]
            Self::Redis(build) => Box::pin(build.keep_lease()),
        }
    }

    /// Notes in the store what the source reads. Returns what is noted there if that is something else, unless a loss is
    /// accepted.
    pub(crate) async fn identify(
        &mut self,
        source: &str,
        accepts_loss: bool,
    ) -> Result<Option<String>, StoreError> {
        match self {
            Self::Memory(_) => Ok(None),
            #[cfg(feature = "redis")]
            Self::Redis(build) => build.identify(source, accepts_loss).await,
        }
    }

    /// *Lease*: takes the lease and a token, and makes room for ids; returns for how many, or nothing where another rebuild holds the
    /// lease. From here on inserts go to the filter that is built, too. Fails if the store would have no room for one of that size.
    pub(crate) async fn lease(&mut self, sizing: Sizing) -> Result<Option<u64>, StoreError> {
        match self {
            Self::Memory(build) => build.lease(sizing).await.map(Some),
            #[cfg(feature = "redis")]
            Self::Redis(build) => build.lease(sizing).await,
        }
    }

    /// *Recent*: returns once a scan may begin that misses nothing, and how many ids were read from the record of recent inserts.
    pub(crate) async fn read_recent(&mut self) -> Result<u64, StoreError> {
        match self {
            Self::Memory(build) => build.read_recent().await,
            #[cfg(feature = "redis")]
            Self::Redis(build) => build.read_recent().await,
        }
    }

    /// Takes ids of the source out of there. Lets other tasks run, and waits while it is behind. The wait may be given up: the
    /// ids are taken by then, or are still there.
    pub(crate) async fn write(&mut self, ids: &mut Vec<Id>) -> Result<(), StoreError> {
        let scan = match self {
            Self::Memory(build) => &mut build.scan,
            #[cfg(feature = "redis")]
            Self::Redis(build) => &mut build.scan,
        };
        scan.as_mut().ok_or_else(scan::lost)?.write(ids).await;
        Ok(())
    }

    /// *Upload* to *swap*: puts what was scanned live.
    pub(crate) async fn put_live(
        &mut self,
        progress: &Progress,
    ) -> Result<LiveFilter, RebuildError> {
        match self {
            Self::Memory(build) => Ok(build.put_live(progress).await?),
            #[cfg(feature = "redis")]
            Self::Redis(build) => build.put_live(progress).await,
        }
    }

    /// Gives the lease back, whatever became of the rebuild, and frees what is not live.
    pub(crate) async fn release(self) {
        match self {
            Self::Memory(build) => drop(build),
            #[cfg(feature = "redis")]
            Self::Redis(build) => build.release().await,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
