//! What a rebuild did, and what one is doing.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::RebuildError;
use crate::filter::Generation;
use crate::verdict::Doubt;

/// What a rebuild that went live did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RebuildReport {
    /// The generation that is live now.
    pub generation: Generation,
    /// The ids the source gave.
    pub ids: u64,
    /// The ids brought back from the journal.
    pub replayed: u64,
    /// The ids the filter is sized for.
    pub capacity: u64,
    /// The false-positive rate with the ids it holds, 0 to 1.
    pub expected_rate: f64,
    /// The size of the stored filter, header and trailer included, in bytes.
    pub bytes: u64,
    /// How often the source was scanned: once, unless it outgrew the size planned for it.
    pub scans: u32,
    /// How long the scans took.
    pub scan_took: Duration,
    /// How long all of it took.
    pub took: Duration,
}

/// What a rebuild is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RebuildStep {
    /// Nothing: none is under way in this process.
    Idle,
    /// Taking the lease and noting where the journal stands.
    Begin,
    /// Scanning the source into a local filter.
    Scan,
    /// Reading the journal into the local filter.
    Journal,
    /// Allocating and uploading the filter.
    Upload,
    /// Replaying what was added meanwhile.
    CatchUp,
    /// Verifying the uploaded filter.
    Verify,
    /// Putting it live.
    Swap,
}

impl RebuildStep {
    const ALL: [Self; 8] = [
        Self::Idle,
        Self::Begin,
        Self::Scan,
        Self::Journal,
        Self::Upload,
        Self::CatchUp,
        Self::Verify,
        Self::Swap,
    ];

    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Begin => "begin",
            Self::Scan => "scan",
            Self::Journal => "journal",
            Self::Upload => "upload",
            Self::CatchUp => "catch_up",
            Self::Verify => "verify",
            Self::Swap => "swap",
        }
    }
}

impl fmt::Display for RebuildStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far the rebuild under way in this process is, and how the last one ended.
#[derive(Debug, Clone)]
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

/// Why a rebuild is done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Cause {
    /// The application asked for it.
    #[default]
    ByHand,
    /// The live filter is old enough.
    Schedule,
    /// There is no filter to trust.
    NoTrust(Doubt),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByHand => f.write_str("by hand"),
            Self::Schedule => f.write_str("by schedule"),
            Self::NoTrust(doubt) => doubt.fmt(f),
        }
    }
}

/// The numbers behind [`RebuildStatus`], written as the rebuild goes.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    step: AtomicU8,
    cause: Mutex<Cause>,
    /// Rebuilds so far that came to read the source.
    readings: AtomicU64,
    scanned: AtomicU64,
    uploaded: AtomicU64,
    total: AtomicU64,
    last: Mutex<Option<Result<RebuildReport, Arc<RebuildError>>>>,
}

impl Progress {
    pub(super) fn enter(&self, step: RebuildStep) {
        self.step.store(step as u8, Ordering::Relaxed);
        if step == RebuildStep::Scan {
            self.readings.fetch_add(1, Ordering::Relaxed);
            // Not before: every process that another's rebuild keeps waiting asks once a second.
            let cause = *self.cause.lock().unwrap_or_else(PoisonError::into_inner);
            tracing::info!(%cause, "a rebuild begins");
        }
    }

    pub(super) fn begin_for(&self, cause: Cause) {
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    pub(super) fn readings(&self) -> u64 {
        self.readings.load(Ordering::Relaxed)
    }

    pub(super) fn scanned(&self, ids: u64) {
        self.scanned.store(ids, Ordering::Relaxed);
    }

    pub(super) fn to_upload(&self, bytes: u64) {
        self.uploaded.store(0, Ordering::Relaxed);
        self.total.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn uploaded(&self, bytes: u64) {
        self.uploaded.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, how: Result<RebuildReport, Arc<RebuildError>>) {
        self.enter(RebuildStep::Idle);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
    }

    pub(super) fn status(&self) -> RebuildStatus {
        let step = usize::from(self.step.load(Ordering::Relaxed));
        RebuildStatus {
            step: RebuildStep::ALL.get(step).copied().unwrap_or(RebuildStep::Idle),
            ids_scanned: self.scanned.load(Ordering::Relaxed),
            bytes_uploaded: self.uploaded.load(Ordering::Relaxed),
            bytes_total: self.total.load(Ordering::Relaxed),
            last: self.last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
