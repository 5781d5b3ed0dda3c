//! What the application chose of the guard's settings about requests and their answers.

use crate::OnUnknown;
use crate::rng::Rng;

/// The choices, the same for all processes.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Requests that delete are guarded, too.
    pub(crate) guards_delete: bool,
    /// Only a marked 404 counts.
    pub(crate) marker: bool,
    /// An absence is the same for all callers.
    pub(crate) shared: bool,
    /// The handler answers 410 for some rows that are missing.
    pub(crate) gone: bool,
    /// Refusals that pass as a sample, a second.
    pub(crate) audits: u32,
    /// The lane: requests at once, and a second.
    pub(crate) lane: (u32, u32),
    pub(crate) on_unknown: OnUnknown,
}

impl Rules {
    /// What the guard does by default.
    pub(crate) const DEFAULT: Self = Self {
        guards_delete: false,
        marker: false,
        shared: false,
        gone: false,
        audits: 1,
        lane: (64, 500),
        on_unknown: OnUnknown::PassLimited,
    };

    pub(super) fn draw(rng: &mut Rng) -> Self {
        use OnUnknown::{Pass, PassLimited, Shed};
        Self {
            guards_delete: rng.happens(400),
            marker: rng.happens(250),
            shared: rng.happens(250),
            gone: rng.happens(300),
            audits: rng.pick(&[0, 1]),
            lane: rng.pick(&[(64, 500), (64, 500), (2, 10)]),
            on_unknown: rng.pick(&[PassLimited, PassLimited, PassLimited, Pass, Pass, Shed]),
        }
    }
}
