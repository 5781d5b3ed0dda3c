//! Whether guards act on what they find.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// Whether a guard acts on what it finds: as text, `enforce`, `shadow` or `off`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize), serde(rename_all = "lowercase"))]
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

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        })
    }
}

impl Mode {
    pub(crate) fn milder(self, other: Self) -> Self {
        if self as u8 > other as u8 { self } else { other }
    }
}

/// A mode that changes while requests read it, and its number, in one word: four times the number, plus the mode.
#[derive(Default)]
pub(crate) struct SharedMode(AtomicI64);

impl SharedMode {
    pub(crate) fn get(&self) -> Mode {
        mode_of(self.0.load(Ordering::SeqCst))
    }

    pub(crate) fn numbered(&self) -> (Mode, i64) {
        let both = self.0.load(Ordering::SeqCst);
        (mode_of(both), both / 4)
    }

    /// Notes a mode, and returns it if it differs from the one before. The greatest number counts, and of equal ones the milder mode.
    /// A number beyond two to the 61st is ignored.
    pub(crate) fn note(&self, mode: Mode, number: i64) -> Option<Mode> {
        let told = number.checked_mul(4)?.checked_add(mode as i64)?;
        let before = self.0.fetch_max(told, Ordering::SeqCst);
        (told > before && mode != mode_of(before)).then_some(mode)
    }

    pub(crate) fn change(&self, mode: Mode) {
        let next = |both| Some((both / 4 + 1) * 4 + mode as i64);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok();
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
        let told = [(Off, 3), (Enforce, 4), (Off, 3), (Shadow, 4), (Enforce, 4), (Enforce, 5)];
        let then = [Some(Off), Some(Enforce), None, Some(Shadow), None, Some(Enforce)];
        assert_eq!(told.map(|(mode, number)| shared.note(mode, number)), then);
        for number in [i64::MIN, -1, i64::MAX / 4 + 1, i64::MAX] {
            assert_eq!(shared.note(Off, number), None);
        }
        assert_eq!(shared.numbered(), (Enforce, 5));
        shared.change(Off);
        assert_eq!(shared.numbered(), (Off, 6));
    }
}
