//! The journal of inserts, from which a rebuild learns what its scan could not see.
//!
//! Entries are numbered without gaps from zero, and the oldest are dropped first. The time of the last
//! entry dropped is kept: a reader that needs entries from before it has a gap.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::StoreError;
use crate::id::Digest;

/// How many old entries each new one drops at most.
const SWEEP: usize = 4;

pub(super) struct Journal {
    keep: Duration,
    limit: usize,
    entries: VecDeque<(Instant, Digest)>,
    /// The number of the first entry there is.
    first: u64,
    /// When the last entry that was dropped had been made.
    dropped: Option<Instant>,
}

impl Journal {
    pub(super) const fn new(keep: Duration, limit: usize) -> Self {
        Self { keep, limit, entries: VecDeque::new(), first: 0, dropped: None }
    }

    pub(super) fn push(&mut self, digest: Digest, now: Instant) {
        for _ in 0..SWEEP {
            match self.entries.front() {
                Some((at, _)) if *at + self.keep < now => self.drop_oldest(),
                _ => break,
            }
        }
        if self.entries.len() >= self.limit {
            self.drop_oldest();
        }
        self.entries.push_back((now, digest));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns the number of the first entry made less than `overlap` before `time`.
    /// Fails with a gap when an entry of that interval has been dropped.
    pub(super) fn first_since(&self, time: Instant, overlap: Duration) -> Result<u64, StoreError> {
        if self.dropped.is_some_and(|at| at + overlap > time) {
            return Err(gap());
        }
        Ok(self.first + self.entries.partition_point(|(at, _)| *at + overlap <= time) as u64)
    }

    /// Returns how far back all entries are there; nothing while none has been dropped.
    pub(super) fn reaches(&self, now: Instant) -> Option<Duration> {
        self.dropped.map(|at| now.saturating_duration_since(at))
    }

    /// Copies at most `limit` entries with numbers from `from` up to, not including, `to`.
    /// Fails with a gap when the first of them has been dropped.
    pub(super) fn read(&self, from: u64, to: u64, limit: usize) -> Result<Vec<Digest>, StoreError> {
        let skip = from.checked_sub(self.first).ok_or_else(gap)?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.entries.len());
        let count = usize::try_from(to.saturating_sub(from)).unwrap_or(limit).min(limit);
        Ok(self.entries.range(skip..).take(count).map(|(_, digest)| *digest).collect())
    }

    fn drop_oldest(&mut self) {
        if let Some((at, _)) = self.entries.pop_front() {
            self.first += 1;
            self.dropped = Some(at);
        }
    }
}

fn gap() -> StoreError {
    let reason = "inserts of the time it has to cover have been dropped from it";
    StoreError::journal_gap(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(100);
    const OVERLAP: Duration = Duration::from_secs(10);

    fn digest(n: u8) -> Digest {
        Digest::from_bytes([n; 16])
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_overlap_before_a_time_is_found() {
        let start = Instant::now();
        let mut journal = Journal::new(KEEP, 100);
        for n in 0..20 {
            journal.push(digest(n), start + seconds(n.into()));
        }
        let from = journal.first_since(start + seconds(20), OVERLAP).unwrap();
        assert_eq!(from, 11);
        assert_eq!(journal.read(from, journal.next(), 3).unwrap(), [11, 12, 13].map(digest));
        assert_eq!(journal.read(from, 12, 3).unwrap(), [digest(11)]);
        assert_eq!(journal.read(journal.next(), u64::MAX, 3).unwrap(), []);
    }

    #[test]
    fn a_journal_that_never_dropped_anything_has_no_gap() {
        let journal = Journal::new(KEEP, 100);
        assert_eq!(journal.first_since(Instant::now(), OVERLAP).unwrap(), 0);
    }

    #[test]
    fn an_entry_dropped_from_the_interval_is_a_gap() {
        let start = Instant::now();
        let mut journal = Journal::new(KEEP, 3);
        for n in 0..4 {
            journal.push(digest(n), start + seconds(n.into()));
        }
        let gap = journal.first_since(start + seconds(5), OVERLAP);
        assert_eq!(gap.unwrap_err().as_str(), "journal_gap");
        assert_eq!(journal.read(0, 4, 9).unwrap_err().as_str(), "journal_gap");
        assert_eq!(journal.first_since(start + OVERLAP, OVERLAP).unwrap(), 1);
    }

    #[test]
    fn entries_older_than_the_retention_go_and_younger_ones_stay() {
        let start = Instant::now();
        let mut journal = Journal::new(KEEP, 100);
        journal.push(digest(0), start);
        journal.push(digest(1), start + KEEP);
        assert_eq!(journal.first, 0);
        journal.push(digest(2), start + KEEP + seconds(1));
        assert_eq!((journal.first, journal.next()), (1, 3));
    }
}
