//! What a rebuild did, and what one is doing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::RebuildError;
use crate::filter::Generation;

/// What a rebuild that went live did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RebuildReport {
    /// The generation that is live now.
    pub generation: Generation,
    /// The ids the source gave.
    pub ids: u64,
    /// The ids read from the record of recent inserts.
    pub recent: u64,
    /// The ids the filter is sized for.
    pub capacity: u64,
    /// The false-positive rate with the ids it holds, 0 to 1.
    pub expected_rate: f64,
    /// The size of the stored filter, header and trailer included, in bytes.
    pub bytes: u64,
    /// How often the source was scanned: once, unless it outgrew the size planned for it.
    pub scans: u64,
    /// How long the last scan took.
    pub scan_took: Duration,
    /// How long all of it took.
    pub took: Duration,
}

/// What a rebuild is doing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RebuildStep {
    /// Nothing: none is under way in this process.
    #[default]
    Idle,
    /// Sizing the filter, taking the lease, and allocating the filter: from here on inserts go to both.
    Lease,
    /// Reading what was inserted lately, and waiting until a scan misses nothing.
    Recent,
    /// Scanning the source into a filter in this process.
    Scan,
    /// Comparing the count with the last generation's.
    Compare,
    /// Uploading the filter.
    Upload,
    /// Verifying the uploaded filter.
    Verify,
    /// Putting it live.
    Swap,
}

impl RebuildStep {
    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        const NAMES: [&str; 8] =
            ["idle", "lease", "recent", "scan", "compare", "upload", "verify", "swap"];
        NAMES[self as usize]
    }
}

impl fmt::Display for RebuildStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far the rebuild under way in this process is, and how the last one ended.
#[derive(Debug, Default, Clone)]
#[non_exhaustive]
pub struct RebuildStatus {
    /// The step it is at.
    pub step: RebuildStep,
    /// The ids scanned so far.
    pub ids_scanned: u64,
    /// The bytes uploaded so far.
    pub bytes_uploaded: u64,
    /// The bytes there are to upload; 0 before that is known.
    pub bytes_total: u64,
    /// How the last rebuild in this process ended; none before the first has.
    pub last: Option<Result<RebuildReport, Arc<RebuildError>>>,
}

/// What is behind [`RebuildStatus`], written as the rebuild goes.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Course>);

#[derive(Default)]
struct Course {
    status: RebuildStatus,
    /// Set while the source is read.
    reading_since: Option<Instant>,
    read_for: Duration,
}

impl Progress {
    pub(crate) fn enter(&self, step: RebuildStep) {
        let mut course = self.0.lock();
        course.status.step = step;
        let read = course.reading_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        course.read_for += read;
        match step {
            RebuildStep::Lease => {
                course.status.bytes_uploaded = 0;
                course.status.bytes_total = 0;
            }
            RebuildStep::Scan => course.reading_since = Some(Instant::now()),
            _ => {}
        }
    }

    /// Begins to count, over all attempts of a rebuild, for how long it reads the source.
    pub(crate) fn begin(&self) {
        self.0.lock().read_for = Duration::ZERO;
    }

    /// Notes that the source is read until the next step: *lease* counts its ids, and may look for its first.
    pub(crate) fn reads(&self) {
        self.0.lock().reading_since = Some(Instant::now());
    }

    pub(crate) fn read_for(&self) -> Duration {
        self.0.lock().read_for
    }

    pub(crate) fn scanned(&self, ids: u64) {
        self.0.lock().status.ids_scanned = ids;
    }

    #[cfg(feature = "redis")]
    pub(crate) fn to_upload(&self, more: u64) {
        self.0.lock().status.bytes_total += more;
    }

    #[cfg(feature = "redis")]
    pub(crate) fn uploaded(&self, bytes: u64) {
        self.0.lock().status.bytes_uploaded += bytes;
    }

    pub(crate) fn ended(&self, how: Result<RebuildReport, Arc<RebuildError>>) {
        self.enter(RebuildStep::Idle);
        self.0.lock().status.last = Some(how);
    }

    pub(crate) fn status(&self) -> RebuildStatus {
        self.0.lock().status.clone()
    }
}
