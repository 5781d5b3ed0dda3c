//! Where a source pushes its ids.

use std::fmt;

use super::report::Progress;
use super::target::Target;
use crate::extract::{AsId, IdExtractor};
use crate::id::{Id, InvalidId};

/// After so many ids a push lets other tasks run.
const YIELD: u64 = 256;

/// Takes the ids of a scan in, one by one.
pub struct IdSink<'a> {
    extractor: &'a dyn IdExtractor,
    target: &'a mut dyn Target,
    progress: &'a Progress,
    count: u64,
    invalid: Option<InvalidId>,
}

impl<'a> IdSink<'a> {
    pub(super) fn new(
        extractor: &'a dyn IdExtractor,
        target: &'a mut dyn Target,
        progress: &'a Progress,
    ) -> Self {
        progress.scanned(0);
        Self { extractor, target, progress, count: 0, invalid: None }
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
            self.target.breathe().await;
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

    fn take(&mut self, id: Result<Id, InvalidId>) -> Result<(), InvalidId> {
        let id = id.inspect_err(|error| self.invalid = Some(*error))?;
        self.target.take(self.count, id);
        self.count += 1;
        if self.count.is_multiple_of(YIELD) {
            self.progress.scanned(self.count);
        }
        Ok(())
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
