//! A rebuild in a single process.
//!
//! The scanned filter is not copied: from *upload* on it gets every insert, and *swap* makes it the live
//! one. There is no lease to take, as a process rebuilds a filter of its own once at a time.

use std::future::ready;
use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::shared::{BATCH, Books, Live, Shared};
use crate::error::StoreError;
use crate::filter::{Filter, Generation, Header, Membership, State};
use crate::id::{Digest, Digester};
use crate::store::{BoxFuture, Build, Plan};
use crate::verdict::Doubt;

/// One rebuild.
pub(super) struct MemoryBuild {
    shared: Arc<Shared>,
    token: Generation,
    previous: Option<u64>,
    /// The moment of *mark*.
    began: Instant,
    /// The journal's first entry that is not in the filter yet, once any has been read.
    cursor: Option<u64>,
    plan: Option<Plan>,
    filter: Option<Arc<Filter>>,
    /// Whether the journal has been read up to a moment after *upload*.
    replayed: bool,
}

impl MemoryBuild {
    /// *Mark*: takes a token, which is none only beyond the year 2255.
    pub(super) fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let mut books = shared.books();
        let token = Generation::new(shared.clock.now_us().max(books.token.saturating_add(1)))?;
        books.token = token.get();
        let entries = books.journal.len() as u64;
        drop(books);
        shared.journal_room.note(entries);
        Some(Self {
            shared: Arc::clone(shared),
            token,
            previous: shared.header().ok().map(|header| header.items.into()),
            began: Instant::now(),
            cursor: None,
            plan: None,
            filter: None,
            replayed: false,
        })
    }

    /// Copies journal entries into a filter, from where the last such call ended until now.
    async fn read_up(&mut self, into: &Filter) -> Result<u64, StoreError> {
        let to = self.shared.books().journal.next();
        let overlap = self.shared.retention.overlap;
        let from = match self.cursor {
            Some(cursor) => cursor,
            None => self.shared.books().journal.first_since(self.began, overlap)?,
        };
        let mut cursor = from;
        while cursor < to {
            let digests = self.shared.books().journal.read(cursor, to, BATCH)?;
            digests.iter().for_each(|digest| into.insert(digest));
            cursor += digests.len() as u64;
            yield_now().await;
        }
        self.cursor = Some(cursor);
        Ok(cursor - from)
    }

    /// Returns the filter if it gets every insert: another rebuild may have put its own in the place.
    fn building(&self, books: &Books, step: &'static str) -> Result<Arc<Filter>, StoreError> {
        match (&self.filter, &books.building) {
            (Some(ours), Some(building)) if Arc::ptr_eq(ours, building) => Ok(Arc::clone(ours)),
            _ => Err(StoreError::Lost { step }),
        }
    }

    fn put_live(&self) -> Result<(), StoreError> {
        let step = "swap";
        if !self.replayed {
            return Err(StoreError::JournalGap { reason: "it has not been replayed".into() });
        }
        let mut books = self.shared.books();
        let filter = self.building(&books, step)?;
        let Some(Plan { geometry, capacity, rate, items }) = self.plan else {
            return Err(StoreError::Lost { step });
        };
        if self.shared.generation().is_some_and(|live| live >= self.token) {
            return Err(StoreError::Fenced { step });
        }
        let header = Header {
            state: State::Live,
            generation: self.token,
            nonce: 0,
            geometry,
            key_id: self.shared.digester.key_id(),
            run: 0,
            items,
            capacity,
            rate,
        };
        let replaced_disproved = self.shared.header() == Err(Doubt::Disproved);
        let live = Live { header, filter, replaced_disproved };
        let former = self.shared.live.swap(Some(Arc::new(live)));
        books.building = None;
        drop(books);
        drop(former); // freeing it may take a while
        Ok(())
    }

    fn let_go(&self) {
        let mut books = self.shared.books();
        if self.building(&books, "release").is_ok() {
            books.building = None;
        }
    }
}

impl Build for MemoryBuild {
    fn token(&self) -> Generation {
        self.token
    }

    fn previous(&self) -> Option<u64> {
        self.previous
    }

    fn digester(&self) -> &Digester {
        &self.shared.digester
    }

    fn read_journal<'a>(&'a mut self, into: &'a Filter) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.read_up(into))
    }

    fn allocate(&mut self, plan: Plan) -> BoxFuture<'_, Result<(), StoreError>> {
        self.plan = Some(plan);
        Box::pin(ready(Ok(())))
    }

    fn upload<'a>(
        &'a mut self,
        filter: &'a Arc<Filter>,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.filter = Some(Arc::clone(filter));
        self.shared.books().building = Some(Arc::clone(filter));
        progress(filter.byte_len() as u64);
        Box::pin(ready(Ok(())))
    }

    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let filter = self.building(&self.shared.books(), "replay")?;
            let count = self.read_up(&filter).await?;
            self.replayed = true;
            Ok(count)
        })
    }

    fn verify<'a>(
        &'a mut self,
        filter: &'a Filter,
        sample: &'a [Digest],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let whole = sample.iter().all(|digest| filter.lookup(digest) == Membership::Possible);
        Box::pin(ready(if whole { Ok(()) } else { Err(StoreError::Lost { step: "verify" }) }))
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(self.put_live()))
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        self.let_go();
        Box::pin(ready(()))
    }
}

impl Drop for MemoryBuild {
    fn drop(&mut self) {
        self.let_go();
    }
}
