//! Tests that need a live filter or a store that dawdles, and what they are driven with.

mod contract;
mod promises;

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::decide::policy::Policy;
use crate::error::{FleetError, StoreError};
use crate::extract::Extraction;
use crate::filter::{Generation, Sizing};
use crate::guard::options::Options;
use crate::guard::{Guard, Stores};
use crate::id::{Id, SecretKey};
use crate::mode::SharedMode;
use crate::settings::Settings;
use crate::store::memory::MemoryStore;
use crate::store::{
    Answer, Begun, BoxFuture, Build, BuildPart, Condition, Distrusted, FleetChange, FleetView,
    Lookups, NewNull, Remembered, Sought, Store, Survey,
};

fn id(n: u64) -> Id {
    Id::display(&n).unwrap()
}

fn ids(range: std::ops::Range<u64>) -> Vec<Id> {
    range.map(id).collect()
}

/// The default settings but for a rate at which no test meets a false positive, and removals that last as long as nulls.
fn settings() -> Settings {
    let mut settings = Settings::new("users".into());
    settings.sizing = Sizing::new(10_000, 1e-6).unwrap();
    settings.removed_ttl = Some(settings.null_ttl);
    settings
}

/// An in-process store with a fixed key.
fn memory_store(settings: &Settings) -> MemoryStore {
    MemoryStore::new(settings, &SecretKey::new([7; 16]))
}

/// A guard without a source, which lets nothing through that should be refused.
fn guard(store: Arc<dyn Store>, settings: &Settings, options: Options) -> Guard {
    let stores = Stores { store, foreign: None };
    let policy = Policy { audits: 0, ..Policy::default() };
    Guard::new(stores, Arc::new(last_segment), None, settings, &policy, options)
}

/// The id is the last segment of the path; none is unguarded, and `!` is invalid.
fn last_segment(parts: &Parts) -> Extraction {
    match parts.uri.path().rsplit('/').next() {
        None | Some("") => Extraction::Unguarded,
        Some("!") => Extraction::Invalid(crate::InvalidId::Malformed),
        Some(text) => Id::new(text).map_or_else(Extraction::Invalid, Extraction::Id),
    }
}

fn get(n: u64) -> Request<()> {
    Request::get(format!("/users/{n}")).body(()).unwrap()
}

/// A rebuild driven by hand, step by step.
struct Rebuild {
    build: Box<dyn Build>,
}

impl Rebuild {
    /// *Lease* and *mark*.
    async fn begin(store: &dyn Store) -> Option<Self> {
        match store.begin(0).await.unwrap() {
            Begun::Leased(mut build) => {
                build.prepare(settings().sizing).await.unwrap();
                Some(Self { build })
            }
            Begun::Busy => None,
        }
    }

    /// The scan has ended.
    async fn part(&mut self) -> &mut dyn BuildPart {
        self.build.parts().await.unwrap().0.remove(0)
    }

    /// *Scan*: the source gives these ids.
    async fn scan(&mut self, ids: &[Id]) {
        self.build.write(&mut ids.to_vec()).await.unwrap();
    }

    /// *Journal*, *allocate* and *upload*.
    async fn upload(&mut self) -> Result<(), StoreError> {
        self.part().await.read_journal().await?;
        self.part().await.allocate().await?;
        self.part().await.upload(&|_| ()).await
    }

    /// *Catch up*.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        self.part().await.catch_up().await
    }

    async fn replay(&mut self) -> Result<u64, StoreError> {
        self.part().await.replay().await
    }

    /// *Replay* to *swap*.
    async fn finish(mut self) -> Result<Generation, StoreError> {
        self.replay().await?;
        self.swap().await
    }

    /// *Verify* and *swap*.
    async fn swap(mut self) -> Result<Generation, StoreError> {
        self.part().await.verify().await?;
        let live = self.part().await.swap().await?;
        self.build.release().await;
        Ok(live.generation)
    }
}

/// A whole rebuild from these ids.
async fn rebuild(store: &dyn Store, ids: &[Id]) -> Generation {
    let mut rebuild = Rebuild::begin(store).await.expect("nobody else rebuilds");
    rebuild.scan(ids).await;
    rebuild.upload().await.unwrap();
    rebuild.catch_up().await.unwrap();
    rebuild.finish().await.unwrap()
}

/// The in-process store, each answer of which has to be waited for until the gate lets it through.
#[derive(Clone)]
struct Gated {
    store: Arc<MemoryStore>,
    checks: Arc<Semaphore>,
    nulls: Arc<Semaphore>,
}

impl Gated {
    fn new() -> Self {
        Self {
            store: Arc::new(memory_store(&settings())),
            checks: Arc::new(Semaphore::new(0)),
            nulls: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Store for Gated {
    fn start(&self) {}

    fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        let this = self.clone();
        let ids: Vec<Id> = ids.iter().map(|(id, _)| Id::clone(id)).collect();
        Answer::Pending(Box::pin(async move {
            this.checks.acquire().await.unwrap().forget();
            let sought: Vec<Sought<'_>> = ids.iter().map(|id| (id, None)).collect();
            this.store.check(&sought, now).answer().await
        }))
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.add(ids)
    }

    fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered> {
        let (this, id) = (self.clone(), id.clone());
        Answer::Pending(Box::pin(async move {
            this.nulls.acquire().await.unwrap().forget();
            this.store.remember(&id, null).answer().await
        }))
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        self.store.remove(id, ttl)
    }

    fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> BoxFuture<'_, Result<Distrusted, StoreError>> {
        self.store.distrust(id, generation)
    }

    fn condition(&self) -> Condition {
        self.store.condition()
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        self.store.survey()
    }

    fn view_fleet(&self) -> BoxFuture<'_, Result<Option<FleetView>, StoreError>> {
        self.store.view_fleet()
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        self.store.fleet_mode()
    }

    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        self.store.change_fleet(change)
    }

    fn begin(&self, before_us: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        self.store.begin(before_us)
    }
}
