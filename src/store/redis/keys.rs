//! The names of a shard's keys, and the letters that stand for modes in the metadata and for scopes in nulls. All keys share one
//! hash slot; ids never appear in one.

use crate::error::SettingError;
use crate::id::Digest;
use crate::mode::Mode;
use crate::nulls::scope::Scope;

const MOST_SHARDS: u32 = 1_024;

pub(crate) fn judge_shards(shards: u32) -> Result<(), SettingError> {
    if shards.is_power_of_two() && shards <= MOST_SHARDS {
        return Ok(());
    }
    let reason = format!("{shards} is no power of two from 1 to {MOST_SHARDS}");
    Err(SettingError::Invalid { setting: "shards", reason })
}

#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) bits: String,
    pub(crate) next: String,
    /// The record of recent inserts.
    pub(crate) recent: String,
    /// The metadata. Versions before had theirs under another name.
    pub(crate) meta: String,
    pub(crate) lock: String,
    /// Blocks and masks, while an insert sets bits.
    scratch: [String; 2],
    nulls: String,
}

impl Keys {
    /// Returns the keys of a shard, by its number and how many there are. No filter's name holds `#` or `/`.
    pub(crate) fn of_shard(name: &str, number: u32, shards: u32) -> Self {
        if shards > 1 { Self::new(&format!("{name}#{number}/{shards}")) } else { Self::new(name) }
    }

    pub(crate) fn new(name: &str) -> Self {
        let key = |part: &str| format!("bg:{{{name}}}:{part}");
        Self {
            bits: key("bits"),
            next: key("next"),
            recent: key("recent"),
            meta: key("fleet"),
            lock: key("lock"),
            scratch: [key("blocks"), key("masks")],
            nulls: key("null:"),
        }
    }

    pub(crate) fn of_add(&self, digests: &[Digest]) -> Vec<String> {
        let [blocks, masks] = &self.scratch;
        let filter = [&self.meta, &self.recent, &self.bits, &self.next, &self.lock, blocks, masks];
        filter.into_iter().cloned().chain(digests.iter().map(|digest| self.null(digest))).collect()
    }

    pub(crate) fn null(&self, digest: &Digest) -> String {
        format!("{}{digest}", self.nulls)
    }

    /// Returns the parts of a null's key, of a digest written in hex.
    pub(crate) fn null_parts<'a>(&'a self, hex: &'a [u8; 32]) -> [&'a [u8]; 2] {
        [self.nulls.as_bytes(), hex]
    }
}

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
    fn keys_share_one_hash_slot() {
        let keys = Keys::new("users");
        assert_eq!(keys.bits, "bg:{users}:bits");
        let null = keys.null(&Digest::from_bytes([0xab; 16]));
        assert_eq!(null, format!("bg:{{users}}:null:{}", "ab".repeat(16)));
        assert_eq!(Keys::of_shard("users", 0, 1).bits, "bg:{users}:bits");
        assert_eq!(Keys::of_shard("users", 3, 8).bits, "bg:{users#3/8}:bits");
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

    #[test]
    fn a_scope_survives_being_stored() {
        let read: Vec<_> = (0..=u8::MAX).filter_map(Scope::from_byte).collect();
        assert_eq!(read, [Scope::Anonymous, Scope::Everyone]);
        assert!(read.iter().all(|scope| Scope::from_byte(scope.as_byte()) == Some(*scope)));
    }
}
