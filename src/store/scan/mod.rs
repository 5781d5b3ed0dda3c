//! What the source gives in one scan, in this process: a filter for each shard, with all its ids in it.

mod filling;

use std::sync::Arc;

use tokio::task::spawn_blocking;

pub(crate) use self::filling::Filled;
use self::filling::Filling;
use crate::error::StoreError;
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Filter, Geometry, Sizing};
use crate::id::{Digester, Id};

/// The largest filter that is made without a thread of its own: that takes a few milliseconds.
const LARGE: u64 = 4 << 20;

pub(crate) fn lost() -> StoreError {
    StoreError::lost("the end of the scan")
}

/// What a rebuild has of its scan.
#[derive(Default)]
pub(crate) struct Scan {
    under_way: Option<Filling>,
}

impl Scan {
    /// Begins anew, with an empty filter for each shard that has a geometry; returns for how many ids in all shards.
    pub(crate) async fn begin(
        &mut self,
        digester: &Digester,
        sizing: Sizing,
        geometry: impl Fn(usize) -> Option<Geometry>,
    ) -> Result<u64, StoreError> {
        // Two large filters at once may be more than the machine has room for.
        *self = Self::default();
        let mut shards = Vec::with_capacity(sizing.shards as usize);
        for shard in 0..sizing.shards as usize {
            shards.push(match geometry(shard) {
                Some(geometry) => Some(Filled::new(empty(geometry).await?)),
                None => None,
            });
        }
        self.under_way = Some(Filling::new(digester.clone(), shards));
        Ok(sizing.capacity)
    }

    /// Returns the filters that are filled, before any ids are.
    pub(crate) fn filters(&self) -> impl Iterator<Item = Arc<Filter>> {
        self.under_way.iter().flat_map(Filling::filters)
    }

    /// Takes ids in. Lets other tasks run, and waits while the filters are behind. May be given up.
    pub(crate) async fn write(&mut self, ids: &mut Vec<Id>) -> Result<(), StoreError> {
        self.under_way.as_mut().ok_or_else(lost)?.write(ids).await;
        Ok(())
    }

    /// Puts the rest in. Returns what the source gave to each shard that was wanted, in their order; nothing once that was done.
    /// Fails if the thread that filled the filters ended early, as when the runtime ends.
    pub(crate) async fn end(&mut self) -> Result<Vec<Filled>, StoreError> {
        let Some(mut filling) = self.under_way.take() else { return Ok(Vec::new()) };
        let filled = filling.finish().await.ok_or_else(lost)?;
        Ok(filled.into_iter().flatten().collect())
    }
}

/// Returns an empty filter. The system takes long to give a large one, so that other tasks would wait.
pub(crate) async fn empty(geometry: Geometry) -> Result<Filter, StoreError> {
    if u64::from(geometry.blocks) * BLOCK_LEN as u64 <= LARGE {
        return Ok(Filter::new(geometry));
    }
    // It ends early only with the runtime, which ends this task, too.
    spawn_blocking(move || Filter::new(geometry)).await.map_err(|_| lost())
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
        assert_eq!(filter.geometry, sizing.geometry(1));
        assert!(turns.load(Ordering::Relaxed) > 0);
        others.abort();
    }
}
