//! The statement that a filter is whole, kept under its key in Redis: `{key}:bg:trust`, a hash.
//!
//! A process that starts cannot know what became of the filter before. So trust is stated once, by the application, and
//! kept in Redis with what it rests on: the Redis process, the filter's layout and numbers, the last two seals, and
//! witnesses. What loses the filter and the statement together (FLUSHALL) leaves no trust; what brings both back (an old
//! dump) brings them to another Redis process.
//!
//! | field | what |
//! |---|---|
//! | `on` | the statement; or `refilled by` and a nonce, while `at` is renewed |
//! | `seal`, `before`, `at` | the last two seals of a bitmap, 8 bytes each, and when the last was written, in µs by Redis's clock |
//! | `witnesses` | words of a bitmap: 18 bytes each, big-endian: the key's place among those on its Redis, u16, the word's first bit, u64, the bits that were set |
//! | `proven` | of the last statement: as how many ids a source should give, and the layout and numbers |
//! | `drawn` | what a module's filter was sealed with by refills that have not ended |
//! | `floor` | how many ids a module's filter has had since a refill began |
//! | `disproved` | the last statement was ended by a record that it lacked |
//! | `stays` | this one took the place of such a one: no record that it lacks ends it |

use ::redis::{Cmd, cmd};

use crate::error::StoreError;
use crate::filter::Generation;
use crate::store::link::reply::Reply;

/// How `on` begins while a refill goes on.
pub(super) const REFILLED: &str = "refilled by ";

/// What trust rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The Redis process.
    pub(super) run: u32,
    /// When it was stated, by Redis's clock.
    pub(super) generation: Generation,
    /// How many ids the filter held then, as estimated.
    pub(super) ids: u64,
    /// The first bit of a bitmap's seal; of a module's, what its ids are made of.
    pub(super) seal: u64,
    /// The layout, its keys and its numbers.
    pub(super) of: String,
}

impl Record {
    /// Returns it as it is stored.
    pub(super) fn encode(&self) -> String {
        let Self { run, generation, ids, seal, of } = self;
        let run = Self::run_as_text(*run);
        format!("2 {run} {generation} {ids} {seal} {of}")
    }

    /// Returns a Redis process as it is stored.
    pub(super) fn run_as_text(run: u32) -> String {
        format!("{run:08x}")
    }

    /// Reads it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.splitn(6, ' ');
        if fields.next()? != "2" {
            return None;
        }
        let run = u32::from_str_radix(fields.next()?, 16).ok()?;
        let generation = Generation::new(fields.next()?.parse().ok()?)?;
        let ids = fields.next()?.parse().ok()?;
        let seal = fields.next()?.parse().ok()?;
        Some(Self { run, generation, ids, seal, of: fields.next()?.to_owned() })
    }
}

/// What is read of the statement behind bits.
pub(super) struct Stated {
    pub(super) on: Option<Vec<u8>>,
    /// The last two seals of a bitmap.
    seals: [Option<Vec<u8>>; 2],
}

impl Stated {
    /// Returns the command that reads it.
    pub(super) fn ask(key: &str) -> Cmd {
        cmd("HMGET").arg(key).arg(&["on", "seal", "before"]).clone()
    }

    pub(super) fn read(reply: Reply) -> Result<Self, StoreError> {
        let [on, seal, before] = reply.fields()?;
        let seals = [seal.optional_bytes()?, before.optional_bytes()?];
        Ok(Self { on: on.optional_bytes()?, seals })
    }

    /// Whether the seal that was read before is one of the last two: it may have been turned over since.
    pub(super) fn names(&self, seal: i64) -> bool {
        self.seals.iter().flatten().any(|named| **named == seal.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_is_read() {
        let generation = Generation::new(1_700_000_000_000_000).unwrap();
        let of = "go-zero \"a key\" of 20 bits".to_owned();
        let record = Record { run: 0xbeef, generation, ids: 7, seal: u64::MAX, of };
        assert_eq!(Record::decode(record.encode().as_bytes()), Some(record));
    }

    #[test]
    fn what_is_not_a_statement_is_none() {
        let whole = "2 0000beef 1700000000000000 7 128 of";
        assert!(Record::decode(whole.as_bytes()).is_some());
        for wrong in ["", "2", "1 0000beef 1700000000000000 7 128 of", "2 x 1 7 9 of", "2 0 1 7 9"]
        {
            assert_eq!(Record::decode(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Record::decode(&[whole.as_bytes(), &[0xff]].concat()), None);
    }
}
