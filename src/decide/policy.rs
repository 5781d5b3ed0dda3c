//! The application's choices in what becomes of a request.

use crate::decide::lane::Width;

/// Whether a guard acts on what it finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Requests for ids that are proven absent are refused.
    #[default]
    Enforce,
    /// All requests pass. What would have been refused is counted, and judged by its response: one that
    /// finds a record is a false negative.
    Shadow,
    /// All requests pass, and nobody is asked. Inserts and rebuilds go on, so that the guard can be
    /// switched on again at any time.
    Off,
}

/// What to do with a request when the answer about its id is unknown. It is never refused with 404.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUnknown {
    /// Ids that were lately seen to exist pass freely; all others share a lane that is bounded in
    /// concurrency and rate. What the lane does not take is answered 503 with `Retry-After`.
    #[default]
    PassLimited,
    /// It passes.
    Pass,
    /// It is answered 503 with `Retry-After`.
    Shed,
}

/// The application's choices in the matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) mode: Mode,
    pub(crate) on_unknown: OnUnknown,
    /// For as long as this process has seen that there is no filter, and never one; and where Redis may
    /// evict it.
    pub(crate) on_unbuilt: OnUnknown,
    pub(crate) lane: Width,
    /// Refusals let through for a look, a second.
    pub(crate) audits: u32,
    /// Ids remembered as seen to exist.
    pub(crate) recently_seen: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            on_unknown: OnUnknown::default(),
            on_unbuilt: OnUnknown::Pass,
            lane: Width { concurrency: 64, per_second: 500 },
            audits: 1,
            recently_seen: 1 << 17,
        }
    }
}
