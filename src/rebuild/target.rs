//! Where the ids of a scan go: into a filter in this process.

use super::filling::Filling;
use crate::error::BoxError;
use crate::filter::Filter;
use crate::id::{Digest, Digester, Id};
use crate::store::BoxFuture;

/// The digests kept to verify the uploaded filter with, at most.
const SAMPLE: usize = 256;

/// Takes the ids of one scan.
pub(super) trait Target: Send {
    /// Takes the id in that comes after so many others.
    fn take(&mut self, count: u64, id: Id);

    /// Lets other tasks run. Waits while what takes the ids is behind.
    fn breathe(&mut self) -> BoxFuture<'_, ()>;
}

/// Puts ids into a filter, and keeps a sample of them.
pub(super) struct IntoFilter<'a> {
    digester: &'a Digester,
    filling: Filling,
    sample: Vec<Digest>,
    stride: u64,
}

impl<'a> IntoFilter<'a> {
    pub(super) fn new(digester: &'a Digester, filter: Filter) -> Self {
        let filling = Filling::new(digester.clone(), filter);
        let sample = Vec::with_capacity(SAMPLE);
        Self { digester, filling, sample, stride: 1 }
    }

    /// Keeps a sample: one digest in each stride, which doubles whenever the sample is full.
    fn keep(&mut self, count: u64, digest: Digest) {
        if self.sample.len() == SAMPLE {
            let mut odd = false;
            self.sample.retain(|_| {
                odd = !odd;
                odd
            });
            self.stride *= 2;
        }
        if count.is_multiple_of(self.stride) {
            self.sample.push(digest);
        }
    }

    /// Returns the filter with all ids in it, and a sample of them.
    ///
    /// # Errors
    ///
    /// The filter is lost.
    pub(super) async fn finish(mut self) -> Result<(Filter, Vec<Digest>), BoxError> {
        let filter = self.filling.finish().await?;
        Ok((filter, self.sample))
    }
}

impl Target for IntoFilter<'_> {
    fn take(&mut self, count: u64, id: Id) {
        if count.is_multiple_of(self.stride) {
            self.keep(count, self.digester.digest(&id));
        }
        self.filling.push(id);
    }

    fn breathe(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.filling.breathe())
    }
}
