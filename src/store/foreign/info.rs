//! What a module of Redis says of a filter that it keeps.

use std::f64::consts::LN_2;

use ::redis::{Cmd, cmd};

use super::size::BloomSize;
use crate::error::StoreError;
use crate::store::link::reply::Reply;

/// Ids of a seal: all of them are false positives once in 4·10^9 filters, where the rate is 0.25.
pub(super) const SEALED: u64 = 16;
/// A filter with fewer bits an id has a higher rate than 0.25: the ids of a seal may be found in it by chance.
const FEWEST_BITS: f64 = 2.88;

/// What the module says of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    pub(super) capacity: u64,
    pub(super) bytes: u64,
    /// Those that were new when they were inserted: never fewer than before.
    pub(super) ids: u64,
}

impl Info {
    pub(super) fn ask(key: &str) -> Cmd {
        cmd("BF.INFO").arg(key).clone()
    }

    pub(super) fn read(reply: Reply) -> Result<Self, StoreError> {
        let (mut capacity, mut bytes, mut ids) = (None, None, None);
        for [name, value] in reply.pairs()? {
            match name.text()?.as_str() {
                "Capacity" => capacity = Some(value.count()?),
                "Size" => bytes = Some(value.count()?),
                "Number of items inserted" => ids = Some(value.count()?),
                _ => {}
            }
        }
        let all = capacity.zip(bytes).zip(ids);
        let ((capacity, bytes), ids) = all.ok_or_else(|| odd("a field of BF.INFO is missing"))?;
        Ok(Self { capacity, bytes, ids })
    }

    /// Whether the next id needs room that the filter may not get: what other programs fail to insert is missing then.
    pub(super) const fn is_full(&self) -> bool {
        self.ids >= self.capacity
    }

    /// Whether ids of a seal that are found show anything.
    pub(super) fn is_legible(&self) -> bool {
        self.bytes as f64 * 8.0 >= FEWEST_BITS * self.capacity as f64
    }

    /// Whether a seal leaves room for as many ids again.
    pub(super) const fn has_room(&self) -> bool {
        self.ids + 2 * SEALED <= self.capacity
    }

    /// Returns the size of one Bloom filter that takes as much room for as many ids: the module does not tell its rate.
    pub(super) fn size(&self) -> BloomSize {
        let bits = self.bytes * 8;
        BloomSize::new(bits, (bits as f64 / self.capacity.max(1) as f64 * LN_2).ceil() as u32)
    }
}

fn odd(answer: &str) -> StoreError {
    StoreError::Odd { step: "a module's filter", answer: answer.to_owned() }
}
