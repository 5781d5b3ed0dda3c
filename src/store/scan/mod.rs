//! What the source gives in one scan, in this process: a filter with all ids in it, and a sample of them.

mod filling;

use std::sync::Arc;

use tokio::task::spawn_blocking;

use self::filling::Filling;
use super::random_bytes;
use crate::error::StoreError;
use crate::filter::format::BLOCK_LEN;
use crate::filter::{Filter, Geometry, Sizing};
use crate::id::{Digest, Digester, Id};

/// The digests kept to verify the uploaded filter with, at most.
const SAMPLE: usize = 256;
/// The largest filter that is made without a thread of its own: that takes a few milliseconds.
const LARGE: u64 = 4 << 20;

const LOST: StoreError = StoreError::Lost { step: "the end of the scan" };

/// What a rebuild has of its scan.
#[derive(Default)]
pub(crate) struct Scan {
    under_way: Option<UnderWay>,
    given: Option<Given>,
}

/// A filter with all ids of a scan in it.
pub(crate) struct Given {
    pub(crate) filter: Arc<Filter>,
    pub(crate) sizing: Sizing,
    /// How many ids the source gave.
    pub(crate) ids: u64,
    pub(crate) sample: Vec<Digest>,
}

struct UnderWay {
    digester: Digester,
    sizing: Sizing,
    filling: Filling,
    ids: u64,
    sample: Vec<Digest>,
    /// One id in as many is in the sample.
    stride: u64,
}

impl Scan {
    /// Begins anew, with an empty filter; returns for how many ids.
    pub(crate) async fn begin(
        &mut self,
        digester: &Digester,
        sizing: Sizing,
    ) -> Result<u64, StoreError> {
        // Two large filters at once may be more than the machine has room for.
        *self = Self::default();
        let filter = empty(sizing.geometry(u32::from_be_bytes(random_bytes()?))).await?;
        let (digester, sample) = (digester.clone(), Vec::with_capacity(SAMPLE));
        let filling = Filling::new(digester.clone(), filter);
        self.under_way = Some(UnderWay { digester, sizing, filling, ids: 0, sample, stride: 1 });
        Ok(sizing.capacity().into())
    }

    /// Takes ids in. Lets other tasks run, and waits while the filter is behind. May be given up.
    pub(crate) async fn write(&mut self, ids: &mut Vec<Id>) -> Result<(), StoreError> {
        let scan = self.under_way.as_mut().ok_or(LOST)?;
        ids.iter().for_each(|id| scan.count(id));
        scan.filling.write(ids).await;
        Ok(())
    }

    /// Puts the rest in.
    ///
    /// # Errors
    ///
    /// [`StoreError::Lost`]: the thread that filled the filter ended early, as when the runtime ends.
    pub(crate) async fn end(&mut self) -> Result<&Given, StoreError> {
        if let Some(mut scan) = self.under_way.take() {
            let filter = Arc::new(scan.filling.finish().await.ok_or(LOST)?);
            let UnderWay { sizing, ids, sample, .. } = scan;
            self.given = Some(Given { filter, sizing, ids, sample });
        }
        self.given()
    }

    /// Returns what the source gave, once all of it is in.
    pub(crate) fn given(&self) -> Result<&Given, StoreError> {
        self.given.as_ref().ok_or(LOST)
    }
}

impl UnderWay {
    /// Counts an id, and keeps it where it is one of the sample: one in each stride, which doubles whenever the sample is full.
    fn count(&mut self, id: &Id) {
        if self.ids.is_multiple_of(self.stride) && self.sample.len() == SAMPLE {
            let mut odd = false;
            self.sample.retain(|_| {
                odd = !odd;
                odd
            });
            self.stride *= 2;
        }
        if self.ids.is_multiple_of(self.stride) {
            self.sample.push(self.digester.digest(id));
        }
        self.ids += 1;
    }
}

/// Returns an empty filter. The system takes long to give a large one, so that other tasks would wait.
async fn empty(geometry: Geometry) -> Result<Filter, StoreError> {
    if u64::from(geometry.blocks()) * BLOCK_LEN as u64 <= LARGE {
        return Ok(Filter::new(geometry));
    }
    // It ends early only with the runtime, which ends this task, too.
    spawn_blocking(move || Filter::new(geometry)).await.map_err(|_| LOST)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn others_run_while_a_large_filter_is_made() {
        let sizing = Sizing::new(10_000_000, 0.001).unwrap();
        assert!(sizing.bytes() > LARGE);
        let turns = Arc::new(AtomicU64::new(0));
        let others = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            }
        });
        let filter = empty(sizing.geometry(1)).await.unwrap();
        assert_eq!(filter.geometry(), sizing.geometry(1));
        assert!(turns.load(Ordering::Relaxed) > 0);
        others.abort();
    }
}
