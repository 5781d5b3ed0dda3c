//! Warns before the journal holds as many entries as it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The share of the entries at which it warns, in per cent.
const FULL: u64 = 80;

/// How full the journal was seen.
pub(crate) struct JournalRoom {
    filter: Arc<str>,
    most: u64,
    told: AtomicBool,
}

impl JournalRoom {
    pub(crate) fn new(filter: &str, most: u64) -> Self {
        Self { filter: filter.into(), most, told: AtomicBool::new(false) }
    }

    /// Notes how many entries there are. Warns once, and again only if there were fewer meanwhile.
    pub(crate) fn note(&self, entries: u64) {
        let is_short = entries.saturating_mul(100) >= self.most.saturating_mul(FULL);
        if self.told.swap(is_short, Ordering::Relaxed) || !is_short {
            return;
        }
        tracing::warn!(
            parent: None,
            filter = &*self.filter,
            entries,
            most = self.most,
            "the journal is nearly full: once entries are dropped that a rebuild needs, rebuilds fail. Insert many \
             ids at a time with insert_many"
        );
    }
}
