//! A store for tests of what waits for one.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::memory::MemoryStore;
use super::{Answer, Lookups, NewNull, Removed, Sought};
use crate::id::Id;

/// The in-process store, each answer of which has to be waited for until the gate lets it through.
#[derive(Clone)]
pub(crate) struct Gated {
    store: Arc<MemoryStore>,
    pub(crate) checks: Arc<Semaphore>,
    pub(crate) nulls: Arc<Semaphore>,
}

impl Gated {
    pub(crate) fn new(store: Arc<MemoryStore>) -> Self {
        Self { store, checks: Arc::new(Semaphore::new(0)), nulls: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        let this = self.clone();
        let ids: Vec<Id> = ids.iter().map(|(id, _)| Id::clone(id)).collect();
        Answer::Pending(Box::pin(async move {
            this.checks.acquire().await.unwrap().forget();
            let sought: Vec<Sought<'_>> = ids.iter().map(|id| (id, None)).collect();
            this.store.check(&sought, now).answer().await
        }))
    }

    pub(crate) fn remember(&self, id: &Id, null: NewNull) -> Answer<Option<Removed>> {
        let this = self.clone();
        let id = id.clone();
        Answer::Pending(Box::pin(async move {
            this.nulls.acquire().await.unwrap().forget();
            this.store.remember(&id, null).answer().await
        }))
    }
}

/// All else is the store's.
impl Deref for Gated {
    type Target = Arc<MemoryStore>;

    fn deref(&self) -> &Arc<MemoryStore> {
        &self.store
    }
}
