//! The crate's readers of what Redis answers. They are private to it, so they are compiled in from its
//! sources as they stand (see `main.rs`).

#[path = "../../src/store/redis"]
mod sources {
    pub mod view;
    pub mod rebuild {
        pub mod journal;
    }
}

use bloom_guard::{Doubt, StoreError};
use redis::Value;

use self::sources::rebuild::journal::{Coverage, Entry};
use self::sources::view::View;
use crate::filter::Header;
use crate::id::Digest;
use crate::store::link::reply::Reply;

/// Reads the fields of `view.lua`; returns what they say of the live key.
pub fn live(reply: Value) -> Result<Result<Header, Doubt>, StoreError> {
    View::read(Reply::new("view", reply).fields()?).map(|view| view.live())
}

/// Reads an `XRANGE` reply; returns each entry's number, its predecessor's time and its digests.
pub fn entries(reply: Value) -> Result<Vec<(u64, u64, Vec<Digest>)>, StoreError> {
    let entries = Entry::read_all(reply)?;
    Ok(entries.into_iter().map(|entry| (entry.seq, entry.before_ms, entry.digests)).collect())
}

/// Replays a journal that is read in several pieces, as a rebuild does: all digests since `start_ms`, if
/// it is proven that these are all up to entry `seq`, written at `last_ms`.
pub fn replay(
    start_ms: u64,
    pieces: Vec<Value>,
    (seq, last_ms): (u64, u64),
) -> Result<Vec<Digest>, StoreError> {
    let mut coverage = Coverage::since(start_ms);
    let mut digests = Vec::new();
    for piece in pieces {
        for entry in Entry::read_all(piece)? {
            coverage.extend(&entry)?;
            digests.extend(entry.digests);
        }
    }
    coverage.reaches(seq, last_ms)?;
    Ok(digests)
}
