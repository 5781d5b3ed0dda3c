//! How a guard fares.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::decide::policy::Mode;
use crate::filter::{Generation, Header};
use crate::store::Condition;
use crate::verdict::Doubt;

/// The condition of a guard, as this process knows it at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GuardState {
    /// The filter that answers, or why there is none to trust.
    pub live: Result<LiveFilter, Doubt>,
    /// Whether this process acts on what it finds.
    pub mode: Mode,
    /// What is wrong, in words, when something is.
    pub trouble: Option<String>,
}

/// The filter that answers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LiveFilter {
    /// Which build of the filter it is.
    pub generation: Generation,
    /// How many ids it was built from; later inserts are not counted.
    pub items: u32,
    /// How many ids it was sized for.
    pub capacity: u32,
    /// The false-positive rate it was sized for: a fraction, 0.01 being one per cent.
    pub rate: f32,
    /// How long ago its build began, as nearly as the clocks of this process and of the store agree.
    pub age: Duration,
}

impl GuardState {
    /// Puts together what the store knows of itself and how the last rebuild here failed, if it did.
    pub(crate) fn new(condition: Condition, mode: Mode, failed: Option<String>) -> Self {
        let Condition { live, trouble } = condition;
        // As long as there is a filter, a failed rebuild is for the rebuild's own status to tell.
        let failed = failed.filter(|_| live.is_err());
        let trouble = match (trouble, failed) {
            (Some(trouble), Some(failed)) => Some(format!("{trouble}; the last rebuild: {failed}")),
            (None, Some(failed)) => Some(format!("the last rebuild: {failed}")),
            (trouble, None) => trouble.or_else(|| live.as_ref().err().map(Doubt::to_string)),
        };
        Self { live: live.map(|header| LiveFilter::new(&header, SystemTime::now())), mode, trouble }
    }

    /// Whether there is a filter that can prove an id absent.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.live.is_ok()
    }
}

impl LiveFilter {
    fn new(header: &Header, now: SystemTime) -> Self {
        let built = Duration::from_micros(header.generation.get().unsigned_abs());
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            generation: header.generation,
            items: header.items,
            capacity: header.capacity,
            rate: header.rate,
            age: now.saturating_sub(built),
        }
    }
}
