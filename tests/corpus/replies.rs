//! The crate's readers of what Redis answers. They are private to it, so they are compiled in from its
//! sources as they stand (see `main.rs`).

#[path = "../../src/store/redis"]
mod sources {
    pub mod view;
}

use bloom_guard::{Doubt, StoreError};
use redis::Value;

use self::sources::view::View;
use crate::filter::Header;
use crate::store::link::reply::Reply;

/// Reads the fields of `view.lua`; returns what they say of the live key.
pub fn live(reply: Value) -> Result<Result<Header, Doubt>, StoreError> {
    View::read(Reply::new("view", reply)).map(|view| view.live())
}
