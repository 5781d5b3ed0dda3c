//! A rebuild in a single process.
//!
//! The scanned filter is not copied: from *upload* on it gets every insert, and *swap* makes it the live
//! one. There is no lease to take, as a process rebuilds a filter of its own once at a time.

use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::{BATCH, Books, LiveFilter, MemoryStore};
use crate::error::StoreError;
use crate::filter::{Filter, Generation, Membership, Sizing};
use crate::store::scan::{Given, Scan, lost};
use crate::store::{Live, Progress, RebuildStep};
use crate::verdict::Doubt;

pub(crate) struct MemoryBuild {
    store: Arc<MemoryStore>,
    token: Generation,
    pub(crate) previous: Option<u64>,
    /// The moment of *mark*.
    began: Instant,
    /// The journal's first entry that is not in the filter yet, once any has been read.
    cursor: Option<u64>,
    pub(crate) scan: Scan,
    /// What the source gave, once all of it is in.
    given: Option<Given>,
    /// Whether the journal has been read up to a moment after *upload*.
    replayed: bool,
}

impl MemoryBuild {
    /// *Mark*: takes a token, which is none only beyond the year 2255.
    pub(crate) fn begin(store: &Arc<MemoryStore>) -> Option<Self> {
        let mut books = store.books.lock();
        let token = Generation::new(store.clock.now_us().max(books.token.saturating_add(1)))?;
        books.token = token.get();
        let entries = books.journal.len() as u64;
        drop(books);
        store.journal_room.note(entries);
        Some(Self {
            store: Arc::clone(store),
            token,
            previous: store.live().ok().map(|live| live.items),
            began: Instant::now(),
            cursor: None,
            scan: Scan::default(),
            given: None,
            replayed: false,
        })
    }

    /// Copies journal entries into a filter, from where the last such call ended until now.
    async fn read_up(&mut self, into: &Filter) -> Result<u64, StoreError> {
        let to = self.store.books.lock().journal.next();
        let overlap = self.store.settings.longest_transaction;
        let from = match self.cursor {
            Some(cursor) => cursor,
            None => self.store.books.lock().journal.first_since(self.began, overlap)?,
        };
        let mut cursor = from;
        while cursor < to {
            let digests = self.store.books.lock().journal.read(cursor, to, BATCH)?;
            digests.iter().for_each(|digest| into.insert(digest));
            cursor += digests.len() as u64;
            yield_now().await;
        }
        self.cursor = Some(cursor);
        Ok(cursor - from)
    }

    fn given(&self) -> Result<&Given, StoreError> {
        self.given.as_ref().ok_or_else(lost)
    }

    /// Returns the filter if it gets every insert: another rebuild may have put its own in the place.
    fn building(&self, books: &Books, step: &'static str) -> Result<Arc<Filter>, StoreError> {
        match (self.given(), &books.building) {
            (Ok(Given { filter, .. }), Some(building)) if Arc::ptr_eq(filter, building) => {
                Ok(Arc::clone(filter))
            }
            _ => Err(StoreError::lost(step)),
        }
    }

    /// *Scan*: makes room for ids, and returns for how many.
    pub(crate) async fn prepare(&mut self, sizing: Sizing) -> Result<u64, StoreError> {
        self.given = None;
        self.scan.begin(&self.store.digester, sizing, |_| true).await
    }

    /// Takes the further steps: *journal* to *swap*.
    pub(crate) async fn put_live(&mut self, at: &Progress) -> Result<(Live, u64), StoreError> {
        at.enter(RebuildStep::Journal);
        let journalled = self.read_journal().await?;
        at.enter(RebuildStep::Upload);
        let bytes = self.upload()?;
        at.to_upload(bytes);
        at.uploaded(bytes);
        at.enter(RebuildStep::Replay);
        let replayed = self.replay().await?;
        at.enter(RebuildStep::Verify);
        self.verify()?;
        at.enter(RebuildStep::Swap);
        Ok((self.swap()?, journalled + replayed))
    }

    /// Ends the scan. *Journal*: takes in the journal until now, so that only its tail is left to replay.
    pub(crate) async fn read_journal(&mut self) -> Result<u64, StoreError> {
        self.given = self.scan.end().await?.pop();
        let filter = Arc::clone(&self.given()?.filter);
        self.read_up(&filter).await
    }

    /// *Upload*: has the filter get every insert; returns its size in bytes.
    pub(crate) fn upload(&self) -> Result<u64, StoreError> {
        let filter = &self.given()?.filter;
        self.store.books.lock().building = Some(Arc::clone(filter));
        Ok(filter.byte_len() as u64)
    }

    /// *Replay*: takes in the journal's tail.
    pub(crate) async fn replay(&mut self) -> Result<u64, StoreError> {
        let filter = self.building(&self.store.books.lock(), "replay")?;
        let count = self.read_up(&filter).await?;
        self.replayed = true;
        Ok(count)
    }

    /// *Verify*: proves that the filter holds the scan's sample.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        let Given { filter, sample, .. } = self.given()?;
        let is_there = |digest| filter.lookup(digest) == Membership::Possible;
        if sample.iter().all(is_there) { Ok(()) } else { Err(StoreError::lost("verify")) }
    }

    /// *Swap*: makes it the live one.
    pub(crate) fn swap(&self) -> Result<Live, StoreError> {
        let step = "swap";
        if !self.replayed {
            return Err(StoreError::journal_gap("it has not been replayed"));
        }
        let mut books = self.store.books.lock();
        let filter = self.building(&books, step)?;
        let Given { sizing, ids, .. } = self.given()?;
        if self.store.generation().is_some_and(|live| live >= self.token) {
            return Err(StoreError::fenced(step));
        }
        let figures = Live {
            generation: self.token,
            items: *ids,
            capacity: sizing.share.into(),
            rate: sizing.rate as f32,
            expected_rate: sizing.expected_rate(*ids),
            bytes: sizing.bytes(),
        };
        let replaced_disproved =
            matches!(self.store.live(), Err(Doubt::Disproved | Doubt::DisprovedTwice));
        let live = LiveFilter { figures, filter, doubt: None, replaced_disproved, lacked: None };
        let before = self.store.live.swap(Some(Arc::new(live)));
        books.building = None;
        drop(books);
        drop(before); // freeing it may take a while
        Ok(figures)
    }

    fn let_go(&self) {
        let mut books = self.store.books.lock();
        if self.building(&books, "release").is_ok() {
            books.building = None;
        }
    }
}

impl Drop for MemoryBuild {
    fn drop(&mut self) {
        self.let_go();
    }
}
