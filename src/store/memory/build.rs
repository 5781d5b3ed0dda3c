//! A rebuild in a single process.
//!
//! The scanned filter gets every insert from *lease* on, and *swap* makes it the live one. There is nothing to upload and to verify, and
//! no lease: `Rebuilder::one_at_a_time` parts the rebuilds of a process.

use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::{BATCH, MemoryFilter, MemoryStore};
use crate::error::StoreError;
use crate::filter::{Generation, Sizing};
use crate::random;
use crate::store::scan::{Filled, Scan, empty, lost};
use crate::store::{LiveFilter, Progress, RebuildStep};
use crate::verdict::Doubt;

pub(crate) struct MemoryBuild {
    store: Arc<MemoryStore>,
    token: Generation,
    pub(crate) previous: Option<u64>,
    sizing: Sizing,
}

impl MemoryBuild {
    /// Takes a token, which is none only beyond the year 2255.
    pub(crate) fn begin(store: &Arc<MemoryStore>) -> Option<Self> {
        let last = store.live.load().as_ref().map(|live| live.figures);
        let least = last.map_or(0, |last| last.generation.get() + 1);
        Some(Self {
            store: Arc::clone(store),
            token: Generation::new(store.clock.at(Instant::now()).max(least))?,
            previous: last.map(|last| last.items),
            sizing: Sizing::DEFAULT,
        })
    }

    pub(crate) async fn lease(&mut self, sizing: Sizing) -> Result<u64, StoreError> {
        let seed = u32::from_be_bytes(random::bytes().map_err(StoreError::no_random)?);
        let filter = empty(sizing.geometry(seed)).await?;
        self.sizing = sizing;
        self.store.books.lock().building = Some(Arc::new(filter));
        Ok(sizing.capacity)
    }

    /// *Recent*: takes in what was inserted before; returns the number of ids. If some may have been dropped whose transactions are
    /// open, waits until those are over.
    pub(crate) async fn read_recent(&self) -> Result<(Scan, u64), StoreError> {
        let filter = self.store.books.lock().building.clone().ok_or_else(lost)?;
        // Some milliseconds under the lock where it holds a million, once a rebuild.
        let recent = self.store.books.lock().recent.digests();
        for (n, digests) in recent.chunks(BATCH).enumerate() {
            if n > 0 {
                yield_now().await;
            }
            digests.iter().for_each(|digest| filter.insert(digest));
        }
        let longest = self.store.settings.longest_transaction;
        let floor = self.store.books.lock().recent.floor;
        if let Some(dropped) = floor {
            sleep_until(dropped + longest).await;
        }
        Ok((Scan::new(&self.store.digester, [Some(filter)]), recent.len() as u64))
    }

    pub(crate) fn put_live(
        &self,
        mut given: Vec<Filled>,
        at: &Progress,
    ) -> Result<LiveFilter, StoreError> {
        let Filled { filter, ids } = given.pop().ok_or_else(lost)?;
        at.enter(RebuildStep::Swap);
        let mut books = self.store.books.lock();
        let sizing = self.sizing.one();
        let rates = (sizing.rate as f32, sizing.expected_rate(ids));
        let figures =
            LiveFilter::new(self.token, (ids, sizing.share.into()), rates, sizing.bytes());
        let replaced_disproved =
            matches!(self.store.live(), Err(Doubt::Disproved | Doubt::DisprovedTwice));
        let live = MemoryFilter { figures, filter, doubt: None, replaced_disproved, lacked: None };
        let before = self.store.live.swap(Some(Arc::new(live)));
        books.building = None;
        drop(books);
        drop(before); // freeing it may take a while
        Ok(figures)
    }
}

impl Drop for MemoryBuild {
    fn drop(&mut self) {
        self.store.books.lock().building = None;
    }
}
