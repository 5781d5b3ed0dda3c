//! A rebuild in a single process.
//!
//! The scanned filter is not copied: from *upload* on it gets every insert, and *swap* makes it the live
//! one. There is no lease to take, as a process rebuilds a filter of its own once at a time.

use std::future::ready;
use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::inner::{BATCH, Books, Inner, LiveFilter};
use crate::error::StoreError;
use crate::filter::{Filter, Generation, Membership, Sizing};
use crate::id::Id;
use crate::store::scan::{Given, LOST, Scan};
use crate::store::{BoxFuture, Build, BuildPart, Live, Parts};
use crate::verdict::Doubt;

/// One rebuild.
pub(super) struct MemoryBuild {
    inner: Arc<Inner>,
    token: Generation,
    previous: Option<u64>,
    /// The moment of *mark*.
    began: Instant,
    /// The journal's first entry that is not in the filter yet, once any has been read.
    cursor: Option<u64>,
    scan: Scan,
    /// What the source gave, once all of it is in.
    given: Option<Given>,
    /// Whether the journal has been read up to a moment after *upload*.
    replayed: bool,
}

impl MemoryBuild {
    /// *Mark*: takes a token, which is none only beyond the year 2255.
    pub(super) fn begin(inner: &Arc<Inner>) -> Option<Self> {
        let mut books = inner.books.lock();
        let token = Generation::new(inner.clock.now_us().max(books.token.saturating_add(1)))?;
        books.token = token.get();
        let entries = books.journal.len() as u64;
        drop(books);
        inner.journal_room.note(entries);
        Some(Self {
            inner: Arc::clone(inner),
            token,
            previous: inner.live().ok().map(|live| live.items),
            began: Instant::now(),
            cursor: None,
            scan: Scan::default(),
            given: None,
            replayed: false,
        })
    }

    /// Copies journal entries into a filter, from where the last such call ended until now.
    async fn read_up(&mut self, into: &Filter) -> Result<u64, StoreError> {
        let to = self.inner.books.lock().journal.next();
        let overlap = self.inner.settings.longest_transaction;
        let from = match self.cursor {
            Some(cursor) => cursor,
            None => self.inner.books.lock().journal.first_since(self.began, overlap)?,
        };
        let mut cursor = from;
        while cursor < to {
            let digests = self.inner.books.lock().journal.read(cursor, to, BATCH)?;
            digests.iter().for_each(|digest| into.insert(digest));
            cursor += digests.len() as u64;
            yield_now().await;
        }
        self.cursor = Some(cursor);
        Ok(cursor - from)
    }

    fn given(&self) -> Result<&Given, StoreError> {
        self.given.as_ref().ok_or(LOST)
    }

    /// Returns the filter if it gets every insert: another rebuild may have put its own in the place.
    fn building(&self, books: &Books, step: &'static str) -> Result<Arc<Filter>, StoreError> {
        match (self.given(), &books.building) {
            (Ok(Given { filter, .. }), Some(building)) if Arc::ptr_eq(filter, building) => {
                Ok(Arc::clone(filter))
            }
            _ => Err(StoreError::Lost { step }),
        }
    }

    fn put_live(&self) -> Result<Live, StoreError> {
        let step = "swap";
        if !self.replayed {
            return Err(StoreError::JournalGap { reason: "it has not been replayed".into() });
        }
        let mut books = self.inner.books.lock();
        let filter = self.building(&books, step)?;
        let Given { sizing, ids, .. } = self.given()?;
        if self.inner.generation().is_some_and(|live| live >= self.token) {
            return Err(StoreError::Fenced { step });
        }
        let figures = Live {
            generation: self.token,
            items: *ids,
            capacity: sizing.share().into(),
            rate: sizing.rate() as f32,
            expected_rate: sizing.expected_rate(*ids),
            bytes: sizing.bytes(),
        };
        let replaced_disproved =
            matches!(self.inner.live(), Err(Doubt::Disproved | Doubt::DisprovedTwice));
        let live = LiveFilter { figures, filter, doubt: None, replaced_disproved, lacked: None };
        let before = self.inner.live.swap(Some(Arc::new(live)));
        books.building = None;
        drop(books);
        drop(before); // freeing it may take a while
        Ok(figures)
    }

    fn let_go(&self) {
        let mut books = self.inner.books.lock();
        if self.building(&books, "release").is_ok() {
            books.building = None;
        }
    }
}

impl Build for MemoryBuild {
    fn previous(&self) -> Option<u64> {
        self.previous
    }

    fn prepare(&mut self, sizing: Sizing) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.given = None;
        Box::pin(self.scan.begin(&self.inner.digester, sizing, |_| true))
    }

    fn write<'a>(&'a mut self, ids: &'a mut Vec<Id>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.scan.write(ids))
    }

    fn parts(&mut self) -> BoxFuture<'_, Result<Parts<'_>, StoreError>> {
        Box::pin(async {
            self.given = self.scan.end().await?.pop().or(self.given.take());
            Ok((vec![self as &mut dyn BuildPart], Vec::new()))
        })
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        self.let_go();
        Box::pin(ready(()))
    }
}

impl BuildPart for MemoryBuild {
    fn read_journal(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async {
            let filter = Arc::clone(&self.given()?.filter);
            self.read_up(&filter).await
        })
    }

    fn allocate(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(ready(self.given().map(|given| given.filter.byte_len() as u64)))
    }

    fn upload<'a>(
        &'a mut self,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let uploaded = self.given().map(|Given { filter, .. }| {
            self.inner.books.lock().building = Some(Arc::clone(filter));
            progress(filter.byte_len() as u64);
        });
        Box::pin(ready(uploaded))
    }

    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let filter = self.building(&self.inner.books.lock(), "replay")?;
            let count = self.read_up(&filter).await?;
            self.replayed = true;
            Ok(count)
        })
    }

    fn verify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        let whole = self.given().is_ok_and(|Given { filter, sample, .. }| {
            sample.iter().all(|digest| filter.lookup(digest) == Membership::Possible)
        });
        Box::pin(ready(if whole { Ok(()) } else { Err(StoreError::Lost { step: "verify" }) }))
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<Live, StoreError>> {
        Box::pin(ready(self.put_live()))
    }
}

impl Drop for MemoryBuild {
    fn drop(&mut self) {
        self.let_go();
    }
}
