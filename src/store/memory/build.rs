//! A rebuild in a single process.
//!
//! The scanned filter is not copied: from *upload* on it is the building filter.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::{BATCH, Books, Building, Lease, Live, Shared};
use crate::error::StoreError;
use crate::filter::{Filter, Generation, Header, Membership, State};
use crate::id::{Digest, Digester};
use crate::store::{BoxFuture, Build, LeaseKeeper, Plan};
use crate::verdict::Doubt;

/// One rebuild.
pub(super) struct MemoryBuild {
    shared: Arc<Shared>,
    token: Generation,
    previous: Result<Header, Doubt>,
    lease: Duration,
    /// The moment of *mark*.
    began: Instant,
    /// The journal's first entry that is not in the filter yet, once any has been read.
    cursor: Option<u64>,
    /// Where the journal ended at *catch up*, once that is over.
    caught_up_at: Option<u64>,
    /// Whether the journal has been replayed up to there.
    replayed: bool,
}

impl MemoryBuild {
    /// *Lease* and *mark*, unless another rebuild holds the lease.
    pub(super) fn begin(shared: &Arc<Shared>, lease: Duration) -> Option<Self> {
        let mut books = shared.books();
        let began = Instant::now();
        if books.lease.as_ref().is_some_and(|lease| began < lease.until) {
            return None;
        }
        let token = Generation::new(shared.clock.now_us().max(books.token.saturating_add(1)))?;
        books.token = token.get();
        books.lease = Some(Lease { token, until: began + lease });
        Some(Self {
            shared: Arc::clone(shared),
            token,
            previous: shared.header(),
            lease,
            began,
            cursor: None,
            caught_up_at: None,
            replayed: false,
        })
    }

    /// Copies journal entries with numbers below `to` into a filter, from where the last such call ended.
    async fn read_up_to(&mut self, to: u64, into: &Filter) -> Result<u64, StoreError> {
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
            self.cursor = Some(cursor);
            yield_now().await;
        }
        self.cursor = Some(cursor);
        Ok(cursor - from)
    }

    /// Returns the building filter if it is still this rebuild's.
    fn own<'a>(
        &self,
        books: &'a mut Books,
        step: &'static str,
    ) -> Result<&'a mut Building, StoreError> {
        let building = books.building.as_mut().ok_or(StoreError::Lost { step })?;
        match building.header.generation.cmp(&self.token) {
            Ordering::Equal => Ok(building),
            Ordering::Greater => Err(StoreError::Fenced { step }),
            Ordering::Less => Err(StoreError::Lost { step }),
        }
    }

    fn set_filter(&self, filter: &Arc<Filter>) -> Result<(), StoreError> {
        let step = "upload";
        let mut books = self.shared.books();
        let building = self.own(&mut books, step)?;
        if building.header.state != State::Loading || building.header.geometry != filter.geometry()
        {
            return Err(StoreError::Lost { step });
        }
        building.filter = Some(Arc::clone(filter));
        Ok(())
    }

    fn set_catching_up(&mut self) -> Result<(), StoreError> {
        let step = "catching up";
        let mut books = self.shared.books();
        let building = self.own(&mut books, step)?;
        if building.filter.is_none() {
            return Err(StoreError::Lost { step });
        }
        building.header.state = State::CatchingUp;
        let next = books.journal.next();
        drop(books);
        self.caught_up_at = Some(next);
        Ok(())
    }

    /// Returns the building filter once it gets every insert.
    fn caught_up(&self, step: &'static str) -> Result<(u64, Arc<Filter>), StoreError> {
        let mut books = self.shared.books();
        let building = self.own(&mut books, step)?;
        match (self.caught_up_at, &building.filter) {
            (Some(end), Some(filter)) if building.header.state == State::CatchingUp => {
                Ok((end, Arc::clone(filter)))
            }
            _ => Err(StoreError::Lost { step }),
        }
    }

    fn put_live(&self) -> Result<(), StoreError> {
        let step = "swap";
        let (_, filter) = self.caught_up(step)?;
        if !self.replayed {
            return Err(StoreError::JournalGap { reason: "it has not been replayed".into() });
        }
        let mut books = self.shared.books();
        let header = self.own(&mut books, step)?.header.with_state(State::Live);
        if self.shared.generation().is_some_and(|live| live >= self.token) {
            return Err(StoreError::Fenced { step });
        }
        let former = self.shared.live.swap(Some(Arc::new(Live { header, filter })));
        books.building = None;
        drop(books);
        drop(former); // freeing it may take a while
        Ok(())
    }

    fn let_go(&self) {
        let mut books = self.shared.books();
        books.lease.take_if(|lease| lease.token == self.token);
        let building = &mut books.building;
        let unfinished = building.take_if(|building| building.header.generation == self.token);
        drop(books);
        drop(unfinished); // freeing it may take a while
    }
}

impl Build for MemoryBuild {
    fn token(&self) -> Generation {
        self.token
    }

    fn previous(&self) -> &Result<Header, Doubt> {
        &self.previous
    }

    fn digester(&self) -> &Digester {
        &self.shared.digester
    }

    fn keeper(&self) -> Arc<dyn LeaseKeeper> {
        Arc::new(Keeper { shared: Arc::clone(&self.shared), token: self.token, length: self.lease })
    }

    fn read_journal<'a>(&'a mut self, into: &'a Filter) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let end = self.shared.books().journal.next();
            self.read_up_to(end, into).await
        })
    }

    fn allocate(&mut self, plan: Plan) -> BoxFuture<'_, Result<(), StoreError>> {
        let Plan { geometry, capacity, rate, items } = plan;
        let header = Header {
            state: State::Loading,
            generation: self.token,
            nonce: 0,
            geometry,
            key_id: self.shared.digester.key_id(),
            run: 0,
            items,
            capacity,
            rate,
        };
        let mut books = self.shared.books();
        let fenced = matches!(
            &books.building,
            Some(building) if building.header.generation > self.token
        );
        if !fenced {
            books.building = Some(Building { header, filter: None });
        }
        drop(books);
        let outcome = if fenced { Err(StoreError::Fenced { step: "allocate" }) } else { Ok(()) };
        Box::pin(std::future::ready(outcome))
    }

    fn upload<'a>(
        &'a mut self,
        filter: &'a Arc<Filter>,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let outcome = self.set_filter(filter);
        progress(filter.byte_len() as u64);
        Box::pin(std::future::ready(outcome))
    }

    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.set_catching_up()))
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let (end, filter) = self.caught_up("replay")?;
            let count = self.read_up_to(end, &filter).await?;
            self.replayed = true;
            Ok(count)
        })
    }

    fn verify<'a>(
        &'a mut self,
        filter: &'a Filter,
        sample: &'a [Digest],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let step = "verify";
        let outcome = self.caught_up(step).and_then(|(_, building)| {
            let whole = std::ptr::eq(&*building, filter)
                && sample.iter().all(|digest| building.lookup(digest) == Membership::Possible);
            if whole { Ok(()) } else { Err(StoreError::Lost { step }) }
        });
        Box::pin(std::future::ready(outcome))
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.put_live()))
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        self.let_go();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for MemoryBuild {
    fn drop(&mut self) {
        self.let_go();
    }
}

struct Keeper {
    shared: Arc<Shared>,
    token: Generation,
    length: Duration,
}

impl LeaseKeeper for Keeper {
    fn renew(&self) -> BoxFuture<'_, ()> {
        let mut books = self.shared.books();
        if let Some(lease) = &mut books.lease
            && lease.token == self.token
        {
            lease.until = Instant::now() + self.length;
        }
        drop(books);
        Box::pin(std::future::ready(()))
    }
}
