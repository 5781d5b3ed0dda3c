//! Whether guards act on what they find.

use std::sync::atomic::{AtomicI64, Ordering};

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

/// A mode that changes while requests read it, and the number that it was told with: four times the number, plus the mode.
#[derive(Default)]
pub(crate) struct SharedMode(AtomicI64);

impl SharedMode {
    pub(crate) fn get(&self) -> Mode {
        self.numbered().0
    }

    pub(crate) fn numbered(&self) -> (Mode, i64) {
        let both = self.0.load(Ordering::SeqCst);
        (mode_of(both), both / 4)
    }

    /// Notes a mode, and says whether that changes it. The greatest number counts, and of equal ones the milder mode.
    pub(crate) fn note(&self, mode: Mode, number: i64) -> bool {
        let told = number.clamp(0, i64::MAX / 4) * 4 + mode as i64;
        let before = self.0.fetch_max(told, Ordering::SeqCst);
        mode_of(before.max(told)) != mode_of(before)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.0.store(mode as i64, Ordering::SeqCst);
    }
}

const fn mode_of(both: i64) -> Mode {
    match both % 4 {
        0 => Mode::Enforce,
        1 => Mode::Shadow,
        _ => Mode::Off,
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

    #[test]
    fn the_newer_mode_counts_and_of_equal_ones_the_milder() {
        use Mode::{Enforce, Off, Shadow};
        let shared = SharedMode::default();
        let told =
            [(Off, 3), (Enforce, 4), (Off, 3), (Shadow, 4), (Enforce, 4), (Enforce, i64::MAX)];
        let then = [Off, Enforce, Enforce, Shadow, Shadow, Enforce];
        for ((mode, number), then) in told.into_iter().zip(then) {
            let before = shared.get();
            assert_eq!(shared.note(mode, number), before != then);
            assert_eq!(shared.get(), then);
        }
        shared.note(Off, i64::MIN);
        assert_eq!(shared.numbered(), (Enforce, i64::MAX / 4));
    }
}
