//! What is known of the filter on one Redis, and what makes it believed.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::layout::Place;
use super::module::Info;
use super::record::Record;
use super::size::BloomSize;
use crate::error::StoreError;
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

/// The fields of a filter's config, as Redis has them.
pub(super) type Numbers = Vec<Option<Vec<u8>>>;

/// What was found at the last look.
pub(super) struct Known {
    pub(super) run: u32,
    pub(super) config: Numbers,
    pub(super) size: Result<BloomSize, String>,
    pub(super) believed: Result<Believed, Doubt>,
    /// What the statement is about, if that is another filter.
    pub(super) other: Option<String>,
}

/// A filter that is believed.
pub(super) struct Believed {
    /// The statement, as it is stored.
    pub(super) on: Vec<u8>,
    pub(super) record: Record,
    /// Whether it took the place of a disproved one.
    pub(super) stays: bool,
    /// Where the last insert of this process has set a bit that was clear. A filter that was put back from a copy lacks it.
    pub(super) newest: ArcSwapOption<Place>,
    /// What a module said of the filter last.
    seen: ArcSwapOption<Info>,
    /// Why it is not believed any more.
    pub(super) lost: OnceLock<Doubt>,
}

impl Known {
    /// Returns what makes the filter believed, while it is.
    pub(super) fn believed(&self) -> Result<&Believed, Doubt> {
        let believed = self.believed.as_ref().map_err(|doubt| *doubt)?;
        believed.lost.get().map_or(Ok(believed), |doubt| Err(*doubt))
    }

    /// Returns where the seal is, or what a module's is made of, if the filter was believed.
    pub(super) fn seal(&self) -> Option<u64> {
        Some(self.believed.as_ref().ok()?.record.seal)
    }
}

impl Believed {
    pub(super) fn new(on: Vec<u8>, record: Record, stays: bool) -> Self {
        let (newest, seen) = (ArcSwapOption::empty(), ArcSwapOption::empty());
        Self { on, record, stays, newest, seen, lost: OnceLock::new() }
    }

    /// Returns the size of a module's filter, how many ids it takes, and how many it has.
    pub(super) fn extent(&self) -> Result<(BloomSize, u64, u64), Doubt> {
        let seen = self.seen.load_full().ok_or(Doubt::Changing)?;
        if seen.is_full() { Err(Doubt::Full) } else { Ok((seen.size(), seen.capacity, seen.ids)) }
    }

    /// Returns how many ids a module's filter is known to have. To be asked before the module is.
    pub(super) fn floor(&self) -> u64 {
        self.seen.load().as_ref().map_or(self.record.ids, |seen| seen.ids)
    }

    /// Says whether a module's filter has as many ids as it had, shows whether it is sealed, and takes more.
    pub(super) fn has_grown(&self, floor: u64, info: Info) -> Result<(), Doubt> {
        if info.ids < floor || !info.is_legible() {
            return Err(Doubt::Foreign);
        }
        if info.ids >= self.floor() {
            self.seen.store(Some(Arc::new(info)));
        }
        if info.is_full() { Err(Doubt::Full) } else { Ok(()) }
    }

    /// Says whether the statement is the one that is there now; else whether it is gone, or a later one has taken its place.
    pub(super) fn is_stated(&self, on: Option<&[u8]>) -> Result<(), Doubt> {
        if on == Some(self.on.as_slice()) {
            return Ok(());
        }
        let now = on.and_then(Record::decode);
        let is_newer = now.is_some_and(|now| now.generation > self.record.generation);
        Err(if is_newer { Doubt::Changing } else { Doubt::Gone })
    }
}

/// Reads the reply to the command for the numbers, if there was one.
pub(super) fn read_numbers(reply: Option<Reply>) -> Result<Numbers, StoreError> {
    let Some(reply) = reply else { return Ok(Vec::new()) };
    reply.array()?.into_iter().map(Reply::optional_bytes).collect()
}
