//! The statement that a filter is whole, kept beside it in Redis: `bg:{name}:trust`, a hash.
//!
//! A process that starts cannot know what became of the filter before. So trust is stated once, by the application, and
//! kept in Redis with what it rests on: the Redis process, the filter's layout and numbers, and witnesses. What loses
//! the filter and the statement together (FLUSHALL) leaves no trust; what brings both back (an old dump) brings them to
//! another Redis process.

use super::witness::Seal;
use crate::filter::Generation;

/// The field that is compared with each batch.
pub(super) const ON: &str = "on";
/// The field with the witnesses.
pub(super) const WITNESSES: &str = "witnesses";

/// What the field holds once the guard's own filter has taken the other's place.
pub(super) const HANDED_OVER: &str = "handed over";

/// What trust rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The Redis process.
    pub(super) run: u32,
    /// A hash of layout, keys and numbers.
    pub(super) filter: u64,
    /// When it was stated, by Redis's clock.
    pub(super) generation: Generation,
    /// How many ids the filter held then, as estimated.
    pub(super) ids: u64,
    /// What its keys were sealed with.
    pub(super) seal: Seal,
}

/// A word of a key with the bits that were set: the key's place among those on its Redis, the word's first bit, the bits.
pub(super) type SampledWord = (usize, u64, u64);

impl Record {
    /// Returns it as it is stored.
    pub(super) fn encode(&self) -> String {
        let Self { run, filter, generation, ids, seal } = self;
        let Seal { first, value } = seal;
        format!("1 {run:08x} {filter:016x} {generation} {ids} {first} {value}")
    }

    /// Reads it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.split(' ');
        if fields.next()? != "1" {
            return None;
        }
        let run = u32::from_str_radix(fields.next()?, 16).ok()?;
        let filter = u64::from_str_radix(fields.next()?, 16).ok()?;
        let generation = Generation::new(fields.next()?.parse().ok()?)?;
        let ids = fields.next()?.parse().ok()?;
        let (first, value) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let seal = Seal { first, value };
        fields.next().is_none().then_some(Self { run, filter, generation, ids, seal })
    }
}

/// Returns witnesses as they are stored: 18 bytes each, big-endian.
pub(super) fn encode_words(words: &[SampledWord]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() * 18);
    for (key, first, set) in words {
        bytes.extend((*key as u16).to_be_bytes());
        bytes.extend(first.to_be_bytes());
        bytes.extend(set.to_be_bytes());
    }
    bytes
}

/// Reads stored witnesses.
pub(super) fn decode_words(bytes: &[u8]) -> Option<Vec<SampledWord>> {
    let (words, rest) = bytes.as_chunks::<18>();
    let read = |[k0, k1, rest @ ..]: &[u8; 18]| {
        let (first, set) = (rest.first_chunk()?, rest.last_chunk()?);
        let key = u16::from_be_bytes([*k0, *k1]);
        Some((usize::from(key), u64::from_be_bytes(*first), u64::from_be_bytes(*set)))
    };
    if !rest.is_empty() {
        return None;
    }
    words.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_is_read() {
        let generation = Generation::new(1_700_000_000_000_000).unwrap();
        let seal = Seal { first: 128, value: -7 };
        let record = Record { run: 0xbeef, filter: u64::MAX, generation, ids: 7, seal };
        assert_eq!(Record::decode(record.encode().as_bytes()), Some(record));
        let words = vec![(0, 0, 1), (3, 64 << 20, u64::MAX)];
        assert_eq!(decode_words(&encode_words(&words)), Some(words));
    }

    #[test]
    fn what_is_not_a_statement_is_none() {
        let whole = "1 0000beef ffffffffffffffff 1700000000000000 7 128 -7";
        assert!(Record::decode(whole.as_bytes()).is_some());
        for wrong in [
            "",
            "1",
            "2 0000beef ffffffffffffffff 1700000000000000 7 128 7",
            "1 x f 1 7 ",
            "1 0 f 1 7",
        ] {
            assert_eq!(Record::decode(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Record::decode([whole, " 8"].concat().as_bytes()), None);
        assert_eq!(Record::decode(&[whole.as_bytes(), &[0xff]].concat()), None);
        assert_eq!(decode_words(&[0; 17]), None);
    }
}
