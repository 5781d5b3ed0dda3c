//! What the source gives in one scan, in this process: a filter for each shard, with all its ids in it.
//!
//! Filters are filled on another thread, digests and all, while the source gives further ids. They go to the thread with each
//! batch, and come back when all of it is in: so no batch can be left out, and the thread of a rebuild that is dropped ends after
//! one. While a batch is put in and the next one is full, the source waits. One thread is enough: decimal numbers from memory take
//! the source longer than their digests and bits take. It is none of the runtime's blocking threads: the source itself may hold
//! all of these.

use std::sync::Arc;
use std::{mem, thread};

use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};

use crate::error::StoreError;
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Filter, Geometry};
use crate::id::{Digest, Digester, Id};

/// The largest filter that is made without a thread of its own: that takes a few milliseconds.
const LARGE: u64 = 4 << 20;
/// Ids put in by another thread at once. A scan of fewer needs none.
const BATCH: usize = 8192;
/// Ids put in while other tasks wait.
pub(crate) const PART: usize = 256;

/// A filter for each shard, by number; none for one that is not built.
type Shards = Vec<Option<Filled>>;

pub(crate) struct Filled {
    pub(crate) filter: Arc<Filter>,
    /// How many ids the source gave.
    pub(crate) ids: u64,
}

pub(crate) struct Scan {
    digester: Digester,
    batch: Vec<Id>,
    /// None while a thread has them, and when that thread ended early.
    shards: Option<Shards>,
    away: Option<oneshot::Receiver<Shards>>,
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
    /// Begins a scan, with an empty filter for each shard that is built.
    pub(crate) fn new(
        digester: &Digester,
        filters: impl IntoIterator<Item = Option<Arc<Filter>>>,
    ) -> Self {
        let filled = |filter: Option<Arc<Filter>>| filter.map(|filter| Filled { filter, ids: 0 });
        let shards = filters.into_iter().map(filled).collect();
        Self { digester: digester.clone(), batch: Vec::new(), shards: Some(shards), away: None }
    }

    /// Takes an id in. [`keep_up`](Self::keep_up) has to be called for each part.
    pub(crate) fn push(&mut self, id: Id) {
        self.batch.push(id);
    }

    /// Lets other tasks run. Hands the batch over once it is full, and waits for the one before. May be given up.
    pub(crate) async fn keep_up(&mut self) {
        if self.batch.len() < BATCH {
            return yield_now().await;
        }
        self.wait().await;
        let batch = mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Without filters, the scan will have failed.
        if let Some(mut shards) = self.shards.take() {
            let digester = self.digester.clone();
            self.away = Some(away(move || {
                insert_all(&mut shards, &digester, &batch);
                shards
            }));
        }
    }

    /// Returns what the source gave to each shard that is built, in their order. Fails where the thread that had the filters ended
    /// early, as when the runtime ends.
    pub(crate) async fn end(mut self) -> Result<Vec<Filled>, StoreError> {
        self.wait().await;
        let mut shards = self.shards.take().ok_or_else(lost)?;
        for (n, part) in self.batch.chunks(PART).enumerate() {
            if n > 0 {
                yield_now().await;
            }
            insert_all(&mut shards, &self.digester, part);
        }
        Ok(shards.into_iter().flatten().collect())
    }

    /// Waits for the filters. May be given up and called again.
    async fn wait(&mut self) {
        if let Some(away) = &mut self.away {
            self.shards = away.await.ok();
            self.away = None;
        }
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

fn insert_all(shards: &mut Shards, digester: &Digester, ids: &[Id]) {
    let mut digests: Vec<Digest> = ids.iter().map(|id| digester.digest(id)).collect();
    let count = shards.len();
    if count > 1 {
        digests.sort_unstable_by_key(|digest| digest.shard(count));
    }
    for part in digests.chunk_by(|one, other| one.shard(count) == other.shard(count)) {
        if let Some(filled) = &mut shards[part[0].shard(count)] {
            filled.insert_all(part);
        }
    }
}

/// Runs this on another thread. Without one to be had, nothing is returned.
fn away(fill: impl FnOnce() -> Shards + Send + 'static) -> oneshot::Receiver<Shards> {
    let (filled, shards) = oneshot::channel();
    let run = move || drop(filled.send(fill()));
    if let Err(error) = thread::Builder::new().name("bloom-guard".to_owned()).spawn(run) {
        tracing::warn!(%error, "no thread to fill a filter");
    }
    shards
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
    fn begin(wanted: &[bool]) -> Scan {
        let geometry = Sizing::new(100_000, 1e-6).unwrap().geometry(1);
        let filters = wanted.iter().map(|wanted| wanted.then(|| Arc::new(Filter::new(geometry))));
        Scan::new(&digester(), filters)
    }

    async fn write(scan: &mut Scan, ids: Vec<Id>) {
        ids.into_iter().for_each(|id| scan.push(id));
        scan.keep_up().await;
    }

    async fn end(scan: Scan) -> Arc<Filter> {
        scan.end().await.unwrap().pop().unwrap().filter
    }

    #[tokio::test]
    async fn every_id_is_in_the_filter_whatever_its_place_in_a_batch() {
        for count in [0, 1, PART, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + PART + 1] {
            let mut scan = begin(&[true]);
            for from in (0..count).step_by(PART) {
                write(&mut scan, ids(from..count.min(from + PART))).await;
            }
            let filter = end(scan).await;
            assert!((0..count).all(|n| has(&filter, n)), "{count}");
            assert!((count..count + 1000).all(|n| !has(&filter, n)), "{count}");
        }
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_no_id() {
        let mut scan = begin(&[true]);
        let hold = std::sync::Arc::new(std::sync::Barrier::new(2));
        let (mut shards, held) = (scan.shards.take().unwrap(), hold.clone());
        scan.away = Some(away(move || {
            held.wait();
            insert_all(&mut shards, &digester(), &[id(BATCH)]);
            shards
        }));
        let batch = ids(0..BATCH);
        tokio::select! {
            biased;
            () = write(&mut scan, batch) => panic!("the thread has not ended"),
            () = yield_now() => {}
        }
        hold.wait();
        let filter = end(scan).await;
        assert!((0..=BATCH).all(|n| has(&filter, n)));
    }

    #[tokio::test]
    async fn a_small_scan_needs_no_other_thread() {
        let mut scan = begin(&[true]);
        for n in 0..BATCH - 1 {
            write(&mut scan, ids(n..n + 1)).await;
        }
        assert!(scan.shards.is_some());
    }

    #[tokio::test]
    async fn a_filter_that_is_lost_is_an_error() {
        let mut scan = begin(&[true]);
        let shards = scan.shards.take().unwrap();
        scan.away = Some(away(move || {
            drop(shards);
            panic!("as a defect of the crate would")
        }));
        write(&mut scan, ids(0..BATCH)).await;
        assert!(scan.end().await.is_err());
    }

    #[tokio::test]
    async fn each_id_is_in_its_own_shard_and_counted_there_and_a_shard_that_is_not_built_gets_none()
    {
        let wanted = [true, true, false, true];
        let mut scan = begin(&wanted);
        let count = BATCH + PART + 1;
        write(&mut scan, ids(0..count)).await;
        let shards = scan.end().await.unwrap();
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
