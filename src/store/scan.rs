//! What the source gives in one scan, in this process: a filter for each shard, with all its ids in it.

use std::mem;
use std::sync::Arc;

use tokio::task::{spawn_blocking, yield_now};

use crate::error::StoreError;
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Filter, Geometry};
use crate::id::{Digest, Digester, Id};

/// The largest filter that is made without a thread of its own: that takes a few milliseconds.
const LARGE: u64 = 4 << 20;
/// Ids put in while other tasks wait: for each shard, and at most. The cache lines of a shard's ids are fetched together.
const PART: usize = 256;
const BATCH: usize = 8192;

/// A filter with ids in it.
pub(crate) struct Filled {
    pub(crate) filter: Arc<Filter>,
    /// How many ids the source gave.
    pub(crate) ids: u64,
}

/// Filters, and the ids that are not in them yet.
pub(crate) struct Scan {
    digester: Digester,
    batch: Vec<Digest>,
    /// By the shard's number; none for one that is not built.
    shards: Vec<Option<Filled>>,
}

impl Filled {
    fn insert_all(&mut self, digests: &[Digest]) {
        self.ids += digests.len() as u64;
        match Arc::get_mut(&mut self.filter) {
            Some(filter) => filter.insert_all(digests),
            // Inserts go there, too.
            None => digests.iter().for_each(|digest| self.filter.insert(digest)),
        }
    }
}

impl Scan {
    /// Begins a scan, with an empty filter for each shard that has a geometry.
    pub(crate) async fn begin(
        digester: &Digester,
        geometries: impl Iterator<Item = Option<Geometry>>,
    ) -> Result<Self, StoreError> {
        let mut shards = Vec::new();
        for geometry in geometries {
            shards.push(match geometry {
                Some(geometry) => Some(Filled { filter: Arc::new(empty(geometry).await?), ids: 0 }),
                None => None,
            });
        }
        Ok(Self { digester: digester.clone(), batch: Vec::new(), shards })
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = Arc<Filter>> {
        self.shards.iter().flatten().map(|filled| Arc::clone(&filled.filter))
    }

    /// Takes ids in, and lets other tasks run behind a whole part.
    pub(crate) async fn write(&mut self, ids: &mut Vec<Id>) {
        let is_part = ids.len() >= PART;
        self.batch.extend(ids.drain(..).map(|id| self.digester.digest(&id)));
        if self.batch.len() >= BATCH.min(PART * self.shards.len()) {
            self.insert_batch();
        }
        if is_part {
            yield_now().await;
        }
    }

    /// Returns what the source gave to each shard that is built, in their order.
    pub(crate) fn end(mut self) -> Vec<Filled> {
        self.insert_batch();
        self.shards.into_iter().flatten().collect()
    }

    fn insert_batch(&mut self) {
        let count = self.shards.len();
        let mut digests = mem::take(&mut self.batch);
        if count > 1 {
            digests.sort_unstable_by_key(|digest| digest.shard(count));
        }
        for part in digests.chunk_by(|one, other| one.shard(count) == other.shard(count)) {
            if let Some(Some(filled)) = self.shards.get_mut(part[0].shard(count)) {
                filled.insert_all(part);
            }
        }
        digests.clear();
        self.batch = digests;
    }
}

pub(crate) fn lost() -> StoreError {
    StoreError::lost("the end of the scan")
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
    use crate::filter::{Membership, Sizing};
    use crate::id::SecretKey;

    fn digester() -> Digester {
        Digester::new(&SecretKey::new([7; 16]), "users")
    }

    fn id(n: usize) -> Id {
        Id::display(&n).unwrap()
    }

    fn ids(range: std::ops::Range<usize>) -> Vec<Id> {
        range.map(id).collect()
    }

    fn has(filter: &Filter, n: usize) -> bool {
        filter.lookup(&digester().digest(&id(n))) == Membership::Possible
    }

    /// Begins a scan for these shards.
    async fn begin(wanted: &[bool]) -> Scan {
        let sizing = Sizing::new(100_000, 1e-6).unwrap();
        let geometries = wanted.iter().map(|wanted| wanted.then(|| sizing.geometry(1)));
        Scan::begin(&digester(), geometries).await.unwrap()
    }

    fn end(scan: Scan) -> Arc<Filter> {
        scan.end().pop().unwrap().filter
    }

    #[tokio::test]
    async fn every_id_is_in_the_filter_whatever_its_place_in_a_batch() {
        for count in [0, 1, PART, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + PART + 1] {
            let mut scan = begin(&[true]).await;
            for from in (0..count).step_by(PART) {
                scan.write(&mut ids(from..count.min(from + PART))).await;
            }
            let filter = end(scan);
            assert!((0..count).all(|n| has(&filter, n)), "{count}");
            assert!((count..count + 1000).all(|n| !has(&filter, n)), "{count}");
        }
    }

    #[tokio::test]
    async fn each_id_is_in_its_own_shard_and_counted_there_and_a_shard_that_is_not_built_gets_none()
    {
        let wanted = [true, true, false, true];
        let mut scan = begin(&wanted).await;
        let count = BATCH + PART + 1;
        scan.write(&mut ids(0..count)).await;
        let shards = scan.end();
        let mut counted = 0;
        let mut shards = shards.iter();
        for (number, wanted) in wanted.into_iter().enumerate() {
            let own = |n: &usize| digester().digest(&id(*n)).shard(4) == number;
            let own: Vec<usize> = (0..count).filter(own).collect();
            assert!(own.len() > count / 5, "the shards are of about the same size");
            counted += own.len();
            if !wanted {
                continue;
            }
            let filled = shards.next().unwrap();
            assert_eq!(filled.ids, own.len() as u64);
            assert!(own.iter().all(|n| has(&filled.filter, *n)));
            let others = (0..count).filter(|n| !own.contains(n)).take(500);
            assert!(others.into_iter().all(|n| !has(&filled.filter, n)));
        }
        assert_eq!(counted, count);
    }

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
