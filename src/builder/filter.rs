//! Settings for the filter, the nulls and the journal.

use std::time::Duration;

use super::Builder;
use crate::error::ConfigError;
use crate::filter::Sizing;
use crate::id::SecretKey;
use crate::settings::{bounds, duration, number};

/// What the filter holds, and for how long what is remembered.
impl<R> Builder<R> {
    /// How many ids the filter is sized for, and how many absent ids in one it may let pass when it is
    /// full: 0.001 is one in a thousand. A rebuild that finds more ids sizes the filter for those.
    ///
    /// Defaults to 1,000,000 ids at 0.001, which takes 1.9 MB.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Sizing`] when there is no such filter; see [`Sizing::new`] for the bounds.
    pub fn capacity(mut self, ids: u64, false_positive_rate: f64) -> Result<Self, ConfigError> {
        self.settings.sizing = Sizing::new(ids, false_positive_rate)?;
        Ok(self)
    }

    /// How long a null lasts: for that long after a 404 requests for the same id are refused at once.
    /// Spread by up to a tenth either way.
    ///
    /// Defaults to 30 seconds; from 1 second to 1 hour.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn negative_ttl(mut self, ttl: Duration) -> Result<Self, ConfigError> {
        self.settings.null_ttl = duration("negative_ttl", ttl, &bounds::NULL_TTL)?;
        Ok(self)
    }

    /// How long a removed id is remembered, spread by up to a tenth either way.
    ///
    /// Defaults to somewhat more than the time between two rebuilds, or to 24 hours without a regular
    /// schedule; from 1 second to 31 days.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn removed_ttl(mut self, ttl: Duration) -> Result<Self, ConfigError> {
        self.settings.removed_ttl = Some(duration("removed_ttl", ttl, &bounds::REMOVED_TTL)?);
        Ok(self)
    }

    /// The longest time from an insert's call to the end of the transaction that creates the record. A
    /// transaction that takes longer can lose its id in a rebuild, so make sure that the database
    /// ends it first.
    ///
    /// Defaults to 15 minutes; from 1 second to 24 hours. Processes that share a filter may differ: the
    /// longest time any of them stated counts, for as long as the filter's metadata lives.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn longest_transaction(mut self, time: Duration) -> Result<Self, ConfigError> {
        let bounds = &bounds::LONGEST_TRANSACTION;
        self.settings.longest_transaction = duration("longest_transaction", time, bounds)?;
        Ok(self)
    }

    /// The longest time a rebuild takes. One that takes longer, because its scan hangs say, is
    /// [given up](crate::RebuildError::TooLong), and the live filter stays. The journal of inserts
    /// reaches back for this and for [`longest_transaction`](Self::longest_transaction).
    ///
    /// Defaults to 105 minutes, so that the journal covers 2 hours; from 1 minute to 24 hours.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn longest_rebuild(mut self, time: Duration) -> Result<Self, ConfigError> {
        let bounds = &bounds::LONGEST_REBUILD;
        self.settings.longest_rebuild = duration("longest_rebuild", time, bounds)?;
        Ok(self)
    }

    /// The longest a request may take for its 404 to be remembered.
    ///
    /// Defaults to 30 seconds; from 100 milliseconds to 1 hour.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn handler_time(mut self, time: Duration) -> Result<Self, ConfigError> {
        self.settings.handler_time = duration("handler_time", time, &bounds::HANDLER_TIME)?;
        Ok(self)
    }

    /// How many inserts the journal keeps at most, about 32 bytes each in this process and
    /// 50 in Redis, how many inserts this process can repeat to a Redis that lost them, and how many ids created lately it marks, 120 bytes each. When more than that fall into
    /// the time it covers, rebuilds are given up.
    ///
    /// Defaults to 1,000,000; from 1,000 to 1,000,000,000.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn journal_entries(mut self, entries: u64) -> Result<Self, ConfigError> {
        let bounds = &bounds::JOURNAL_ENTRIES;
        self.settings.journal_entries = number("journal_entries", entries, bounds)?;
        Ok(self)
    }

    /// Whether to refuse also while Redis may evict any key (`maxmemory` with an `allkeys-*` policy).
    /// It then takes parts of the books one by one, and what is gone is only noticed afterwards.
    ///
    /// Defaults to false: nothing is refused then, and every verdict that would be is
    /// [`Doubt::Eviction`](crate::Doubt::Eviction).
    pub fn accept_eviction(mut self, accept: bool) -> Self {
        self.settings.accept_eviction = accept;
        self
    }

    /// How many bytes the nulls in this process may take, about 350 each. With Redis they are kept there,
    /// and this means nothing.
    ///
    /// Defaults to 8 MiB, which is some 23,800 nulls; from 64 KiB to 4 GiB.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn null_cache_bytes(mut self, bytes: u64) -> Result<Self, ConfigError> {
        let bounds = &bounds::NULL_CACHE_BYTES;
        self.settings.null_cache_bytes = number("null_cache_bytes", bytes, bounds)?;
        Ok(self)
    }

    /// The key of the digests, which makes false positives impossible to forge. All processes that
    /// share a filter must have the same. To change it, give the filter another name.
    ///
    /// Defaults to a random one: drawn once per filter and kept in Redis with it, or drawn anew by
    /// every process without Redis.
    pub fn secret_key(mut self, key: SecretKey) -> Self {
        self.settings.secret_key = Some(key);
        self
    }
}
