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

    /// Returns the letter that stands for it in the metadata.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Enforce => 'e',
            Self::Shadow => 's',
            Self::Off => 'o',
        }
    }

    /// Reads a letter of the metadata.
    pub(crate) fn from_letter(letter: &str) -> Option<Self> {
        [Self::Enforce, Self::Shadow, Self::Off]
            .into_iter()
            .find(|mode| letter.chars().eq([mode.letter()]))
    }
}

/// A mode that changes while requests read it.
#[derive(Debug, Default)]
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

    #[test]
    fn a_letter_says_which_mode_and_any_other_says_none() {
        for mode in [Mode::Enforce, Mode::Shadow, Mode::Off] {
            assert_eq!(Mode::from_letter(&mode.letter().to_string()), Some(mode));
        }
        for other in ["", "E", "es", "x"] {
            assert_eq!(Mode::from_letter(other), None);
        }
    }
}
