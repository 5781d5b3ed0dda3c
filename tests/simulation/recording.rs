//! What was sent to the model in a run, and what it answered.

use std::cell::RefCell;

use crate::model::keyspace::Bytes;
use crate::model::reply::Reply;

thread_local! {
    static RECORDS: RefCell<Option<Vec<Record>>> = const { RefCell::new(None) };
}

/// One command.
#[derive(Debug)]
pub(crate) struct Record {
    /// The keys that were found to have ended meanwhile.
    pub(crate) ended: Vec<Bytes>,
    pub(crate) words: Vec<Bytes>,
    /// The script it ran.
    pub(crate) code: Option<String>,
    /// The moment it was executed at.
    pub(crate) now_us: u64,
    pub(crate) reply: Reply,
}

pub(crate) fn begin() {
    RECORDS.set(Some(Vec::new()));
}

pub(crate) fn end() -> Vec<Record> {
    RECORDS.take().unwrap_or_default()
}

/// Takes a command down, if anybody wants it.
pub(crate) fn note(record: impl FnOnce() -> Record) {
    RECORDS.with_borrow_mut(|records| {
        if let Some(records) = records {
            records.push(record());
        }
    });
}
