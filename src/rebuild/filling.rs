//! A filter that is filled on another thread, while the source gives further ids.
//!
//! The filter goes to a thread with each batch, and comes back when all of it is in. So no batch can be left out, and the
//! thread of a rebuild that is dropped ends after one. While a batch is put in and the next one is full, the source
//! waits. One thread is enough: a batch is put in sooner than a source gives the next one. It is none of the runtime's
//! blocking threads: the source itself may hold all of these.

use std::{mem, thread};

use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::error::BoxError;
use crate::filter::Filter;
use crate::id::Digest;

/// Digests put in by another thread at once. A scan of fewer ids needs none.
const BATCH: usize = 8192;
/// Digests put in while other tasks wait.
const PART: usize = 256;

/// A filter, and the digests that are not in it yet.
pub(super) struct Filling {
    batch: Vec<Digest>,
    /// None while a thread has it, and when that thread ended early.
    filter: Option<Filter>,
    away: Option<oneshot::Receiver<Filter>>,
}

impl Filling {
    /// Begins to fill a filter.
    pub(super) fn new(filter: Filter) -> Self {
        Self { batch: Vec::new(), filter: Some(filter), away: None }
    }

    /// Takes an id's digest in.
    pub(super) fn push(&mut self, digest: Digest) {
        self.batch.push(digest);
    }

    /// Lets other tasks run. Hands the batch over once it is full, and waits for the one before.
    pub(super) async fn breathe(&mut self) {
        if self.batch.len() < BATCH {
            return yield_now().await;
        }
        self.wait().await;
        let batch = mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Without a filter, the scan will have failed.
        if let Some(mut filter) = self.filter.take() {
            self.away = Some(away(move || {
                filter.insert_all(&batch);
                filter
            }));
        }
    }

    /// Returns the filter with all ids in it.
    ///
    /// # Errors
    ///
    /// The filter is lost: the thread that had it ended early, as when the runtime ends.
    pub(super) async fn finish(&mut self) -> Result<Filter, BoxError> {
        self.wait().await;
        let filter = self.filter.take();
        let mut filter = filter.ok_or("the thread that filled the filter ended early")?;
        for (n, part) in self.batch.chunks(PART).enumerate() {
            if n > 0 {
                yield_now().await;
            }
            filter.insert_all(part);
        }
        Ok(filter)
    }

    /// Waits for the filter. May be given up and called again.
    async fn wait(&mut self) {
        if let Some(away) = &mut self.away {
            self.filter = away.await.ok();
            self.away = None;
        }
    }
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

    fn digest(n: usize) -> Digest {
        let spread = (n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Digest::from_bytes(spread.to_be_bytes())
    }

    fn empty() -> Filling {
        Filling::new(Filter::new(Sizing::new(100_000, 1e-6).unwrap().geometry(1)))
    }

    #[tokio::test]
    async fn every_id_is_in_the_filter_whatever_its_place_in_a_batch() {
        for count in [0, 1, PART, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + PART + 1] {
            let mut filling = empty();
            for n in 0..count {
                filling.push(digest(n));
                if n % PART == 0 {
                    filling.breathe().await;
                }
            }
            let filter = filling.finish().await.unwrap();
            let has = |n: &usize| filter.lookup(&digest(*n)) == Membership::Possible;
            assert!((0..count).all(|n| has(&n)), "{count}");
            assert_eq!((count..count + 1000).filter(has).count(), 0, "{count}");
        }
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_no_id() {
        let mut filling = empty();
        let hold = std::sync::Arc::new(std::sync::Barrier::new(2));
        let (mut filter, held) = (filling.filter.take().unwrap(), hold.clone());
        filling.away = Some(away(move || {
            held.wait();
            filter.insert_all(&[digest(BATCH)]);
            filter
        }));
        (0..BATCH).for_each(|n| filling.push(digest(n)));
        tokio::select! {
            biased;
            () = filling.breathe() => panic!("the thread has not ended"),
            () = yield_now() => {}
        }
        hold.wait();
        let filter = filling.finish().await.unwrap();
        assert!((0..=BATCH).all(|n| filter.lookup(&digest(n)) == Membership::Possible));
    }

    #[tokio::test]
    async fn a_small_scan_needs_no_other_thread() {
        let mut filling = empty();
        for n in 0..BATCH - 1 {
            filling.push(digest(n));
            filling.breathe().await;
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
        (0..BATCH).for_each(|n| filling.push(digest(n)));
        filling.breathe().await;
        filling.finish().await.unwrap_err();
    }
}
