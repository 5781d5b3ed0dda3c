//! The shards of a run's filters: where an id is, and what their keys begin with.
//!
//! Those of the filter that the guard moves to, or of its only one, come first; then those of the one that it moves away from.

use std::cell::Cell;
use std::ops::Range;

use crate::id::{Digester, Id, SecretKey};
use crate::plan::Former;

/// The application's secret key, which a filter in shards has to be given.
pub(crate) const KEY: SecretKey = SecretKey::new([7; 16]);

/// What a filter is called, and one that the guard moves to under another name.
const NAME: &str = "sim";
const RENAMED: &str = "sim-2";

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(1) };
    static FORMER: Cell<Option<Former>> = const { Cell::new(None) };
}

/// Begins a run with so many, and with those of a filter that the guard moves away from.
pub(crate) fn begin(count: u32, former: Option<Former>) {
    COUNT.set(count);
    FORMER.set(former);
}

/// The name of the filter, and of the one that the guard moves away from.
pub(crate) fn names() -> [&'static str; 2] {
    let renamed = FORMER.get().is_some_and(|former| former.renamed);
    [if renamed { RENAMED } else { NAME }, NAME]
}

/// Whether there is more than one in a filter.
pub(crate) fn are_many() -> bool {
    COUNT.get() > 1 || FORMER.get().is_some_and(|former| former.shards > 1)
}

/// Those of the filter, or of the one that the guard moves to, by number.
pub(crate) fn own() -> Range<u32> {
    0..COUNT.get()
}

/// Those of the filter that the guard moves away from.
pub(crate) fn of_former() -> Range<u32> {
    COUNT.get()..COUNT.get() + FORMER.get().map_or(0, |former| former.shards)
}

/// All of them.
pub(crate) fn all() -> Vec<u32> {
    own().chain(of_former()).collect()
}

/// The one that an id is in.
pub(crate) fn of(id: u64) -> u32 {
    place(id, names()[0], COUNT.get())
}

/// The one in each filter.
pub(crate) fn all_of(id: u64) -> Vec<u32> {
    let in_former = |former: Former| COUNT.get() + place(id, NAME, former.shards);
    std::iter::once(of(id)).chain(FORMER.get().map(in_former)).collect()
}

/// The one of so many.
pub(crate) fn of_so_many(id: u64, count: u32) -> u32 {
    place(id, NAME, count)
}

fn place(id: u64, name: &str, count: u32) -> u32 {
    if count == 1 {
        return 0;
    }
    let id = Id::display(&id).expect("a number is an id");
    Digester::new(&KEY, name).digest(&id).shard(count as usize) as u32
}

/// What the keys of one begin with.
pub(crate) fn prefix(shard: u32) -> String {
    let own = COUNT.get();
    let (name, number, count) = match FORMER.get() {
        Some(former) if shard >= own => (NAME, shard - own, former.shards),
        _ => (names()[0], shard, own),
    };
    match count {
        1 => format!("bg:{{{name}}}:"),
        count => format!("bg:{{{name}#{number}/{count}}}:"),
    }
}
