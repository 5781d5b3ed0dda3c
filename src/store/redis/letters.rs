//! The letters that stand for modes in the metadata, and for scopes in nulls.

use crate::mode::Mode;
use crate::nulls::scope::Scope;

impl Mode {
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Enforce => 'e',
            Self::Shadow => 's',
            Self::Off => 'o',
        }
    }

    pub(crate) fn from_letter(letter: &str) -> Option<Self> {
        [Self::Enforce, Self::Shadow, Self::Off]
            .into_iter()
            .find(|mode| letter.chars().eq([mode.letter()]))
    }
}

impl Scope {
    pub(crate) const fn as_byte(self) -> u8 {
        match self {
            Self::Everyone => b'e',
            Self::Anonymous => b'a',
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'e' => Some(Self::Everyone),
            b'a' => Some(Self::Anonymous),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_says_which_mode_and_any_other_says_none() {
        for mode in [Mode::Enforce, Mode::Shadow, Mode::Off] {
            assert_eq!(Mode::from_letter(&mode.letter().to_string()), Some(mode));
        }
        for other in ["", "E", "es", "x"] {
            assert_eq!(Mode::from_letter(other), None);
        }
    }

    #[test]
    fn a_scope_survives_being_stored() {
        let read: Vec<_> = (0..=u8::MAX).filter_map(Scope::from_byte).collect();
        assert_eq!(read, [Scope::Anonymous, Scope::Everyone]);
        assert!(read.iter().all(|scope| Scope::from_byte(scope.as_byte()) == Some(*scope)));
    }
}
