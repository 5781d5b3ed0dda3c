//! What a guard keeps in Redis and in its process, by the defaults of its settings.

use std::time::Duration;

use crate::filter::Sizing;
use crate::settings::{MOST_FOUND, Settings};

/// What a guard keeps, where its settings are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// How long a create mark lasts.
    pub mark_ttl: Duration,
    /// How long an entry of the journal is kept.
    pub journal: Duration,
    /// How many entries the journal keeps at most, and how many marks there are.
    pub journal_entries: u64,
    /// Up to how many marks a batch of inserts sets its own.
    pub marks_of_batches: u64,
    /// Ids that are remembered as found.
    pub found: u64,
    /// Bytes of nulls in the process.
    pub null_bytes: u64,
    /// Bytes that copies may take.
    pub copy_limit: u64,
}

impl Defaults {
    /// Returns them for a filter of this size.
    #[must_use]
    pub fn of(sizing: &Sizing) -> Self {
        let settings = Settings::new(String::new());
        Self {
            mark_ttl: settings.mark_ttl(),
            journal: settings.mark_ttl() + settings.longest_rebuild,
            journal_entries: settings.journal_entries,
            marks_of_batches: settings.marks_of_batches,
            found: sizing.capacity().min(MOST_FOUND),
            null_bytes: settings.null_cache_bytes,
            copy_limit: settings.copy_limit,
        }
    }
}
