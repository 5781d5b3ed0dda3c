//! A filter that is filled on another thread, digests and all, while the source gives further ids.
//!
//! The filter goes to a thread with each batch, and comes back when all of it is in. So no batch can be left out, and the
//! thread of a rebuild that is dropped ends after one. While a batch is put in and the next one is full, the source
//! waits. One thread is enough: decimal numbers from memory take the source longer than their digests and bits take. It is
//! none of the runtime's blocking threads: the source itself may hold all of these.

use std::{mem, thread};

use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::filter::Filter;
use crate::id::{Digest, Digester, Id};

/// Ids put in by another thread at once. A scan of fewer needs none.
const BATCH: usize = 8192;
/// Ids put in while other tasks wait.
const PART: usize = 256;

/// A filter, and the ids that are not in it yet.
pub(super) struct Filling {
    digester: Digester,
    batch: Vec<Id>,
    /// None while a thread has it, and when that thread ended early.
    filter: Option<Filter>,
    away: Option<oneshot::Receiver<Filter>>,
}

impl Filling {
    /// Begins to fill a filter.
    pub(super) fn new(digester: Digester, filter: Filter) -> Self {
        Self { digester, batch: Vec::new(), filter: Some(filter), away: None }
    }

    /// Takes ids in. Lets other tasks run behind a whole part. Hands the batch over once it is full, and waits for the one before.
    pub(super) async fn write(&mut self, ids: &mut Vec<Id>) {
        let is_part = ids.len() >= PART;
        self.batch.append(ids);
        if self.batch.len() < BATCH {
            if is_part {
                yield_now().await;
            }
            return;
        }
        self.wait().await;
        let batch = mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Without a filter, the scan will have failed.
        if let Some(mut filter) = self.filter.take() {
            let digester = self.digester.clone();
            self.away = Some(away(move || {
                insert_all(&mut filter, &digester, &batch);
                filter
            }));
        }
    }

    /// Returns the filter with all ids in it; nothing where the thread that had it ended early.
    pub(super) async fn finish(&mut self) -> Option<Filter> {
        self.wait().await;
        let mut filter = self.filter.take()?;
        for (n, part) in self.batch.chunks(PART).enumerate() {
            if n > 0 {
                yield_now().await;
            }
            insert_all(&mut filter, &self.digester, part);
        }
        Some(filter)
    }

    /// Waits for the filter. May be given up and called again.
    async fn wait(&mut self) {
        if let Some(away) = &mut self.away {
            self.filter = away.await.ok();
            self.away = None;
        }
    }
}

fn insert_all(filter: &mut Filter, digester: &Digester, ids: &[Id]) {
    let digests: Vec<Digest> = ids.iter().map(|id| digester.digest(id)).collect();
    filter.insert_all(&digests);
}

/// Runs this on another thread. Without one to be had, nothing is returned.
fn away(fill: impl FnOnce() -> Filter + Send + 'static) -> oneshot::Receiver<Filter> {
    let (filled, filter) = oneshot::channel();
    let run = move || drop(filled.send(fill()));
    if let Err(error) = thread::Builder::new().name("bloom-guard".to_owned()).spawn(run) {
        tracing::warn!(%error, "no thread to fill a filter");
    }
    filter
}

#[cfg(test)]
mod tests {
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

    fn empty() -> Filling {
        let sizing = Sizing::new(100_000, 1e-6).unwrap();
        Filling::new(digester(), Filter::new(sizing.geometry(1)))
    }

    #[tokio::test]
    async fn every_id_is_in_the_filter_whatever_its_place_in_a_batch() {
        for count in [0, 1, PART, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + PART + 1] {
            let mut filling = empty();
            for from in (0..count).step_by(PART) {
                filling.write(&mut ids(from..count.min(from + PART))).await;
            }
            let filter = filling.finish().await.unwrap();
            assert!((0..count).all(|n| has(&filter, n)), "{count}");
            assert!((count..count + 1000).all(|n| !has(&filter, n)), "{count}");
        }
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_no_id() {
        let mut filling = empty();
        let hold = std::sync::Arc::new(std::sync::Barrier::new(2));
        let (mut filter, held) = (filling.filter.take().unwrap(), hold.clone());
        filling.away = Some(away(move || {
            held.wait();
            insert_all(&mut filter, &digester(), &[id(BATCH)]);
            filter
        }));
        let mut batch = ids(0..BATCH);
        tokio::select! {
            biased;
            () = filling.write(&mut batch) => panic!("the thread has not ended"),
            () = yield_now() => {}
        }
        hold.wait();
        let filter = filling.finish().await.unwrap();
        assert!((0..=BATCH).all(|n| has(&filter, n)));
    }

    #[tokio::test]
    async fn a_small_scan_needs_no_other_thread() {
        let mut filling = empty();
        for n in 0..BATCH - 1 {
            filling.write(&mut ids(n..n + 1)).await;
        }
        assert!(filling.filter.is_some());
    }

    #[tokio::test]
    async fn a_filter_that_is_lost_is_an_error() {
        let mut filling = empty();
        let filter = filling.filter.take().unwrap();
        filling.away = Some(away(move || {
            drop(filter);
            panic!("as a defect of the crate would")
        }));
        filling.write(&mut ids(0..BATCH)).await;
        assert!(filling.finish().await.is_none());
    }
}
