//! The shards of a run's filter: where an id is, and what their keys begin with.

use std::cell::Cell;

use crate::id::{Digester, Id, SecretKey};

/// The application's secret key, which a filter in shards has to be given.
pub(crate) const KEY: SecretKey = SecretKey::new([7; 16]);

/// What the filter is called.
pub(crate) const NAME: &str = "sim";

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(1) };
}

/// Begins a run with so many.
pub(crate) fn begin(count: u32) {
    COUNT.set(count);
}

/// Whether there is more than one.
pub(crate) fn are_many() -> bool {
    COUNT.get() > 1
}

/// All of them, by number.
pub(crate) fn all() -> Vec<u32> {
    (0..COUNT.get()).collect()
}

/// The one that an id is in.
pub(crate) fn of(id: u64) -> u32 {
    of_so_many(id, COUNT.get())
}

/// The one of so many.
pub(crate) fn of_so_many(id: u64, count: u32) -> u32 {
    if count == 1 {
        return 0;
    }
    let id = Id::display(&id).expect("a number is an id");
    Digester::new(&KEY, NAME).digest(&id).shard(count as usize) as u32
}

/// What the keys of one begin with.
pub(crate) fn prefix(shard: u32) -> String {
    match COUNT.get() {
        1 => format!("bg:{{{NAME}}}:"),
        count => format!("bg:{{{NAME}#{shard}/{count}}}:"),
    }
}
