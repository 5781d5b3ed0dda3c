//! Where a source pushes its ids.

use std::fmt;

use super::filling::Filling;
use super::report::Progress;
use crate::error::BoxError;
use crate::extract::{AsId, IdExtractor};
use crate::filter::Filter;
use crate::id::{Digest, Digester, Id, InvalidId};

/// The digests kept to verify the uploaded filter with, at most.
const SAMPLE: usize = 256;
/// After so many ids a push lets other tasks run.
const YIELD: u64 = 256;

/// Takes the ids of a scan in, one by one, into a filter in this process.
pub struct IdSink<'a> {
    extractor: &'a dyn IdExtractor,
    digester: &'a Digester,
    filling: Filling,
    progress: &'a Progress,
    count: u64,
    sample: Vec<Digest>,
    stride: u64,
    invalid: Option<InvalidId>,
}

impl<'a> IdSink<'a> {
    pub(super) fn new(
        extractor: &'a dyn IdExtractor,
        digester: &'a Digester,
        filter: Filter,
        progress: &'a Progress,
    ) -> Self {
        progress.scanned(0);
        Self {
            extractor,
            digester,
            filling: Filling::new(filter),
            progress,
            count: 0,
            sample: Vec::with_capacity(SAMPLE),
            stride: 1,
            invalid: None,
        }
    }

    /// Takes one id in, in the form that a request for it would have. Lets other tasks run from time
    /// to time, and waits while the filter is behind.
    ///
    /// # Errors
    ///
    /// The reason why it is no id. Requests for such an id are refused, so the rebuild fails, even if the
    /// source ignores this error. The live filter stays.
    pub async fn push(&mut self, id: &(impl AsId + Sync + ?Sized)) -> Result<(), InvalidId> {
        let id = id.as_id(self.extractor);
        self.take(id)?;
        self.breathe().await;
        Ok(())
    }

    /// Takes in an id that an adapter wrote down without knowing the extractor.
    pub(super) async fn push_text(&mut self, text: &Id) -> Result<(), InvalidId> {
        let id = std::str::from_utf8(text.as_bytes())
            .map_err(|_| InvalidId::NotText)
            .and_then(|text| self.extractor.canonical(text));
        self.take(id)?;
        self.breathe().await;
        Ok(())
    }

    async fn breathe(&mut self) {
        if self.count.is_multiple_of(YIELD) {
            self.filling.breathe().await;
        }
    }

    /// Returns how many ids were pushed.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    pub(super) const fn invalid(&self) -> Option<InvalidId> {
        self.invalid
    }

    /// Returns the filter with all ids in it, and a sample of them.
    ///
    /// # Errors
    ///
    /// The filter is lost.
    pub(super) async fn finish(mut self) -> Result<(Filter, Vec<Digest>), BoxError> {
        let filter = self.filling.finish().await?;
        Ok((filter, std::mem::take(&mut self.sample)))
    }

    fn take(&mut self, id: Result<Id, InvalidId>) -> Result<(), InvalidId> {
        let id = id.inspect_err(|error| self.invalid = Some(*error))?;
        let digest = self.digester.digest(&id);
        self.filling.push(digest);
        if self.count.is_multiple_of(self.stride) {
            self.keep(digest);
        }
        self.count += 1;
        if self.count.is_multiple_of(YIELD) {
            self.progress.scanned(self.count);
        }
        Ok(())
    }

    /// Keeps a sample: one digest in each stride, which doubles whenever the sample is full.
    fn keep(&mut self, digest: Digest) {
        if self.sample.len() == SAMPLE {
            let mut odd = false;
            self.sample.retain(|_| {
                odd = !odd;
                odd
            });
            self.stride *= 2;
        }
        if self.count.is_multiple_of(self.stride) {
            self.sample.push(digest);
        }
    }
}

impl Drop for IdSink<'_> {
    fn drop(&mut self) {
        self.progress.scanned(self.count);
    }
}

impl fmt::Debug for IdSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdSink").field("count", &self.count).finish_non_exhaustive()
    }
}
