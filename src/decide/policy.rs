//! The application's choices in what becomes of a request.

use std::time::Duration;

use super::lane::Width;

/// What to do with a request when the answer about its id is unknown. It is never refused with 404.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUnknown {
    /// It enters the [lane](crate::Builder::lane), or is answered 503 with `Retry-After`.
    #[default]
    PassLimited,
    /// It passes.
    Pass,
    /// It is answered 503 with `Retry-After`.
    Shed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) on_unknown: OnUnknown,
    pub(crate) lane: Width,
    /// Refusals that pass as a sample, a second.
    pub(crate) audits: u32,
    /// Ids remembered as found, and as missed.
    pub(crate) found: u64,
    pub(crate) missed: u64,
    /// The life of a null, give or take a tenth.
    pub(crate) null_ttl: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_unknown: OnUnknown::default(),
            lane: Width { concurrency: 64, per_second: 500 },
            audits: 1,
            found: 1_000_000,
            missed: 1 << 17,
            null_ttl: Duration::from_secs(30),
        }
    }
}
