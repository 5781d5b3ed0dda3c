//! The statement that the part of a filter under one key is whole: `{key}:bg:trust`, a string beside the key.

use super::layout::{BloomSize, Extent, per_id};
use crate::filter::Generation;
use crate::refusal::Refusal;
use crate::store::LiveFilter;
use crate::verdict::Doubt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) run: u32,
    /// When it was stated, by Redis's clock.
    pub(super) generation: Generation,
    /// The ids in the part then, and how many fill half of its bits.
    pub(super) ids: u64,
    pub(super) capacity: u64,
    /// The length of the key; of a module's filter the least.
    pub(super) length: u64,
    pub(super) size: BloomSize,
    /// The system, the key and the numbers that are nowhere in Redis.
    pub(super) of: String,
}

impl Statement {
    pub(super) fn encode(&self) -> String {
        let Self { run, generation, ids, capacity, length, size, of } = self;
        let BloomSize { bits, hashes } = size;
        format!("1 {run:08x} {generation} {ids} {capacity} {length} {bits} {hashes} {of}")
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.strip_prefix("1 ")?.splitn(8, ' ');
        let run = u32::from_str_radix(fields.next()?, 16).ok()?;
        let generation = Generation::new(fields.next()?.parse().ok()?)?;
        let mut number = || fields.next()?.parse().ok();
        let (ids, capacity, length) = (number()?, number()?, number()?);
        let size = BloomSize { bits: number()?, hashes: number()?.try_into().ok()? };
        let of = fields.next()?.to_owned();
        let statement = Self { run, generation, ids, capacity, length, size, of };
        // It is revoked by its text.
        Some(statement).filter(|statement| statement.encode().as_bytes() == bytes)
    }

    /// Whether a key is as stated. A module's filter never shrinks: neither its ids nor its room.
    pub(super) fn fits(&self, extent: &Extent) -> Result<(), Doubt> {
        match *extent {
            Extent::String(0) => Err(Doubt::Gone),
            Extent::String(bytes) if bytes != self.length => Err(Doubt::Damaged),
            Extent::Module { bytes, ids, .. } if bytes < self.length || ids < self.ids => {
                Err(Doubt::Damaged)
            }
            Extent::Module { ids, capacity, .. } if ids >= capacity => {
                Err(Doubt::Refused(Refusal::FULL))
            }
            _ => Ok(()),
        }
    }

    /// Returns the false-positive rate to expect with `ids` ids, as `capacity` fill half of the bits: `(1 - 2^(-n/capacity))^k`.
    pub(super) fn rate(&self, ids: u64) -> f64 {
        let bits = if self.size.bits == 0 { self.length * 8 } else { self.size.bits };
        let filled = 1.0 - (-(ids as f64) / self.capacity as f64).exp2();
        filled.powf(per_id(bits, self.capacity))
    }

    pub(super) fn live(&self) -> LiveFilter {
        let &Self { generation, ids, capacity, length, .. } = self;
        let rates = (self.rate(capacity) as f32, self.rate(ids));
        LiveFilter::new(generation, (ids, capacity), rates, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_is_read_and_nothing_else_is() {
        let generation = Generation::new(1_700_000_000_000_000).unwrap();
        let size = BloomSize { bits: 20, hashes: 14 };
        let of = "go-zero \"a key\" of 20 bits".to_owned();
        let statement =
            Statement { run: 0xbeef, generation, ids: 7, capacity: 8, length: 9, size, of };
        let stored = statement.encode();
        assert_eq!(Statement::decode(stored.as_bytes()), Some(statement));
        assert_eq!(Statement::decode(&[stored.as_bytes(), &[0xff]].concat()), None);
        for wrong in [
            "",
            "ended",
            "1",
            "2 0000beef 17 7 8 9 20 14 of",
            "1 beef 17 7 8 9 20 14 of",
            "1 x 17 7 8 9 20 14 of",
            "1 0000beef 17 7 8 9 20 14",
            "1 0000beef 17 7 8 9 20 4294967296 of",
        ] {
            assert_eq!(Statement::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
