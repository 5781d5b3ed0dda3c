//! Tests that need a live filter or a store that dawdles, and what they are driven with.

mod contract;
mod promises;

use std::sync::Arc;

use http::Request;
use http::request::Parts;

use crate::error::StoreError;
use crate::extract::Extraction;
use crate::filter::{Generation, Sizing};
use crate::guard::Guard;
use crate::id::Id;
use crate::settings::Settings;
use crate::store::memory::MemoryStore;
use crate::store::memory::build::MemoryBuild;
use crate::store::scan::Scan;
use crate::store::{Progress, Store};

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
    settings.removed_ttl = Some(settings.nulls.ttl);
    settings
}

fn memory_store(settings: &Settings) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(settings).unwrap())
}

/// A guard without a source, which lets nothing through that should be refused.
fn guard(store: Store, settings: &Settings) -> Guard {
    let settings = Settings { audits: 0, ..settings.clone() };
    Guard::new(store, Arc::new(last_segment), None, settings)
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
struct Rebuild(MemoryBuild, Option<Scan>);

impl Rebuild {
    /// *Lease*.
    async fn lease(store: &Arc<MemoryStore>) -> Self {
        let mut build = MemoryBuild::begin(store).unwrap();
        build.lease(settings().sizing).await.unwrap();
        Self(build, None)
    }

    /// *Recent*.
    async fn read_recent(&mut self) -> u64 {
        let (scan, recent) = self.0.read_recent().await.unwrap();
        self.1 = Some(scan);
        recent
    }

    /// *Scan*: the source gives these ids.
    async fn scan(&mut self, ids: &[Id]) {
        let scan = self.1.as_mut().unwrap();
        ids.iter().for_each(|id| scan.push(id.clone()));
        scan.keep_up().await;
    }

    /// *Verify* and *swap*.
    async fn finish(mut self) -> Result<Generation, StoreError> {
        let given = self.1.take().unwrap().end().await?;
        Ok(self.0.put_live(given, &Progress::default())?.generation)
    }
}

/// A whole rebuild from these ids.
async fn rebuild(store: &Arc<MemoryStore>, ids: &[Id]) -> Generation {
    let mut rebuild = Rebuild::lease(store).await;
    rebuild.read_recent().await;
    rebuild.scan(ids).await;
    rebuild.finish().await.unwrap()
}
