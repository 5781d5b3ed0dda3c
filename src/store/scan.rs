//! What the source gives in one scan, in this process: a filter for each shard, with all its ids in it, and a sample of them.

use std::sync::Arc;

use tokio::task::{spawn_blocking, yield_now};

use crate::error::StoreError;
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Filter, Geometry, Sizing};
use crate::id::{Digest, Digester, Id};
use crate::random;

/// The largest filter that is made without a thread of its own: that takes a few milliseconds.
const LARGE: u64 = 4 << 20;
/// The digests kept to verify an uploaded filter with, at most.
const SAMPLE: usize = 256;

pub(crate) fn lost() -> StoreError {
    StoreError::lost("the end of the scan")
}

#[derive(Default)]
pub(crate) struct Scan {
    under_way: Option<UnderWay>,
}

/// A filter with all ids of a scan in it that belong there.
pub(crate) struct Given {
    pub(crate) filter: Arc<Filter>,
    /// The size of this filter.
    pub(crate) sizing: Sizing,
    /// How many ids the source gave.
    pub(crate) ids: u64,
    pub(crate) sample: Vec<Digest>,
}

struct UnderWay {
    digester: Digester,
    sizing: Sizing,
    /// A filter for each shard, by number; none for one that is not built.
    shards: Vec<Option<Filled>>,
}

struct Filled {
    filter: Filter,
    ids: u64,
    sample: Vec<Digest>,
    /// One id in as many is in the sample.
    stride: u64,
}

impl Scan {
    /// Begins anew, with an empty filter for each shard that is wanted; returns for how many ids in all shards.
    pub(crate) async fn begin(
        &mut self,
        digester: &Digester,
        sizing: Sizing,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<u64, StoreError> {
        // Two large filters at once may be more than the machine has room for.
        *self = Self::default();
        let mut shards = Vec::with_capacity(sizing.shards as usize);
        for shard in 0..sizing.shards as usize {
            let mut filled = None;
            if wanted(shard) {
                let seed = u32::from_be_bytes(random::bytes().map_err(StoreError::no_random)?);
                let filter = empty(sizing.geometry(seed)).await?;
                filled = Some(Filled { filter, ids: 0, sample: Vec::new(), stride: 1 });
            }
            shards.push(filled);
        }
        self.under_way = Some(UnderWay { digester: digester.clone(), sizing, shards });
        Ok(sizing.capacity)
    }

    /// Takes ids in, and lets other tasks run. May be given up: the ids are in by then.
    pub(crate) async fn write(&mut self, ids: &mut Vec<Id>) -> Result<(), StoreError> {
        self.under_way.as_mut().ok_or_else(lost)?.insert_all(ids);
        ids.clear();
        yield_now().await;
        Ok(())
    }

    /// Returns what the source gave to each shard that was wanted, in their order; nothing once that was done.
    pub(crate) fn end(&mut self) -> Vec<Given> {
        let Some(UnderWay { sizing, shards, .. }) = self.under_way.take() else {
            return Vec::new();
        };
        let given = |Filled { filter, ids, sample, .. }| Given {
            filter: Arc::new(filter),
            sizing: sizing.one(),
            ids,
            sample,
        };
        shards.into_iter().flatten().map(given).collect()
    }
}

impl UnderWay {
    fn insert_all(&mut self, ids: &[Id]) {
        let mut digests: Vec<Digest> = ids.iter().map(|id| self.digester.digest(id)).collect();
        let count = self.shards.len();
        if count > 1 {
            digests.sort_unstable_by_key(|digest| digest.shard(count));
        }
        for part in digests.chunk_by(|one, other| one.shard(count) == other.shard(count)) {
            if let Some(first) = part.first()
                && let Some(Some(filled)) = self.shards.get_mut(first.shard(count))
            {
                part.iter().for_each(|digest| filled.count(digest));
                filled.filter.insert_all(part);
            }
        }
    }
}

impl Filled {
    /// Counts an id, and keeps it where it is one of the sample: one in each stride, which doubles whenever the sample is full.
    fn count(&mut self, digest: &Digest) {
        if self.ids.is_multiple_of(self.stride) && self.sample.len() == SAMPLE {
            let mut odd = false;
            self.sample.retain(|_| {
                odd = !odd;
                odd
            });
            self.stride *= 2;
        }
        if self.ids.is_multiple_of(self.stride) {
            self.sample.push(*digest);
        }
        self.ids += 1;
    }
}

/// Returns an empty filter. The system takes long to give a large one, so that other tasks would wait.
async fn empty(geometry: Geometry) -> Result<Filter, StoreError> {
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
    use crate::filter::Membership;
    use crate::id::SecretKey;

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

    #[tokio::test]
    async fn each_id_is_in_its_own_shard_and_counted_there_and_a_shard_that_is_not_built_gets_none()
    {
        const COUNT: usize = 8_449;
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let digest = |n: usize| digester.digest(&Id::display(&n).unwrap());
        let wanted = [true, true, false, true];
        let sizing = Sizing::sharded(100_000, 1e-6, 4).unwrap();
        let mut scan = Scan::default();
        scan.begin(&digester, sizing, |shard| wanted[shard]).await.unwrap();
        let ids: Vec<Id> = (0..COUNT).map(|n| Id::display(&n).unwrap()).collect();
        for ids in ids.chunks(256) {
            let mut batch = ids.to_vec();
            scan.write(&mut batch).await.unwrap();
            assert!(batch.is_empty());
        }
        let given = scan.end();
        assert_eq!(given.len(), 3);
        for (given, number) in given.iter().zip([0, 1, 3]) {
            let has = |n: &usize| given.filter.lookup(&digest(*n)) == Membership::Possible;
            let (own, others): (Vec<usize>, Vec<usize>) =
                (0..COUNT).partition(|n| digest(*n).shard(4) == number);
            assert!(own.len() > COUNT / 5, "the shards are of about the same size");
            assert_eq!(given.ids, own.len() as u64);
            assert!(own.iter().all(has));
            assert!(others.iter().take(500).all(|n| !has(n)));
            assert!(given.sample.len() > SAMPLE / 2);
            assert!(given.sample.iter().all(|digest| digest.shard(4) == number));
        }
        assert!(scan.end().is_empty());
    }
}
