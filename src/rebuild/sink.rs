//! Where a source pushes its ids.

use std::fmt;
use std::future::pending;

use crate::error::RebuildError;
use crate::extract::{AsId, IdExtractor};
use crate::id::InvalidId;
use crate::store::Progress;
use crate::store::scan::{PART, Scan};

/// Takes the ids of a scan in, one by one.
pub struct IdSink<'a> {
    extractor: &'a dyn IdExtractor,
    /// None in a probe, which takes no id.
    scan: Option<&'a mut Scan>,
    progress: &'a Progress,
    count: u64,
    failure: Option<RebuildError>,
}

impl<'a> IdSink<'a> {
    pub(super) fn new(
        extractor: &'a dyn IdExtractor,
        progress: &'a Progress,
        scan: Option<&'a mut Scan>,
    ) -> Self {
        progress.scanned(0);
        Self { extractor, scan, progress, count: 0, failure: None }
    }

    /// Takes one id in, in the form that a request for it would have. Lets other tasks run from time
    /// to time, and waits while the filter is behind.
    ///
    /// # Errors
    ///
    /// The reason why it is no id. Requests for such an id are refused, so the rebuild fails, even if the
    /// source ignores this error. The live filter stays.
    pub async fn push(&mut self, id: &(impl AsId + Sync + ?Sized)) -> Result<(), InvalidId> {
        let id = id.as_id(self.extractor).inspect_err(|&source| {
            self.failure.get_or_insert(RebuildError::InvalidId { after: self.count, source });
        })?;
        self.count += 1;
        let Some(scan) = &mut self.scan else {
            self.progress.scanned(self.count);
            return pending().await;
        };
        scan.push(id);
        if self.count.is_multiple_of(PART as u64) {
            self.progress.scanned(self.count);
            scan.keep_up().await;
        }
        Ok(())
    }

    /// Returns how many ids were pushed.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn end(self) -> Result<u64, RebuildError> {
        self.progress.scanned(self.count);
        self.failure.map_or(Ok(self.count), Err)
    }
}

impl fmt::Debug for IdSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdSink").field("count", &self.count).finish_non_exhaustive()
    }
}
