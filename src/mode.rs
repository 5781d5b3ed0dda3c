//! Whether guards act on what they find.

use std::sync::atomic::{AtomicU8, Ordering};

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

impl Mode {
    /// Returns the milder of two modes.
    pub(crate) fn milder(self, other: Self) -> Self {
        if self as u8 > other as u8 { self } else { other }
    }
}

/// A mode that changes while requests read it.
#[derive(Default)]
pub(crate) struct SharedMode(AtomicU8);

impl SharedMode {
    pub(crate) fn get(&self) -> Mode {
        match self.0.load(Ordering::Relaxed) {
            mode if mode == Mode::Shadow as u8 => Mode::Shadow,
            mode if mode == Mode::Off as u8 => Mode::Off,
            _ => Mode::Enforce,
        }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_milder_than_shadow_and_shadow_than_enforce() {
        use Mode::{Enforce, Off, Shadow};
        for (mild, strict) in [(Shadow, Enforce), (Off, Enforce), (Off, Shadow), (Off, Off)] {
            assert_eq!(mild.milder(strict), mild);
            assert_eq!(strict.milder(mild), mild);
        }
    }
}
