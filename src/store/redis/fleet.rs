//! What all processes of one filter go by: until when it settles, and what its record of recent inserts holds.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::Record;
use crate::store::clock::CLOCKS_PART;

/// For how long a reading holds, from when it was asked for: a session is polled once a second, for a second and a half at most.
pub(crate) const HOLDS: Duration = Duration::from_secs(3);

/// A clock that is slewed may gain a twelfth (`maxslewrate` of chrony), and nobody notices: an eighth more is needed.
const SLEWED: u32 = 8;

/// Returns how much a rebuild needs of a record's reach: half of it, which is longer than a transaction and its insert, and some more.
pub(crate) fn needed_of_record(reach: Duration) -> Duration {
    reach / 2 + reach / 2 / SLEWED + CLOCKS_PART * 2
}

/// What the metadata said when a connection last read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    /// A rebuild that begins later ends settling, by Redis's clock, ms; none once the filter has settled. While it settles, a
    /// process may still run that does not insert into it.
    pub(crate) settles_ms: Option<i64>,
    pub(crate) record: Option<Record>,
    /// What Redis's clock showed at `told`, ms.
    pub(crate) told_ms: i64,
    pub(crate) told: Instant,
    /// When it was last seen to be so.
    pub(crate) read: Instant,
}

impl Fleet {
    /// Reads the reply to a join that was sent at `sent`. `until_ms` is 0 once the filter has settled, `now_ms` Redis's clock.
    pub(crate) fn read(until_ms: i64, now_ms: i64, sent: Instant) -> Self {
        let settles_ms = Some(until_ms).filter(|until| *until > 0);
        Self { settles_ms, record: None, told_ms: now_ms, told: sent, read: sent }
    }

    /// Returns for how long the filter still settles, zero once a rebuild may begin; none once it has settled.
    pub(crate) fn settles_for(&self) -> Option<Duration> {
        let left = |until_ms: i64| u64::try_from(until_ms - self.told_ms).unwrap_or(0);
        let left = self.settles_ms.map(|until_ms| Duration::from_millis(left(until_ms)));
        left.map(|left| left.saturating_sub(self.told.elapsed()))
    }

    /// Whether it was read lately enough to act on.
    pub(crate) fn holds(&self) -> bool {
        self.read.elapsed() <= HOLDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reading_of_three_seconds_ago_is_not_acted_on() {
        let fleet = Fleet::read(0, 0, Instant::now());
        assert!(fleet.holds());
        tokio::time::advance(HOLDS + Duration::from_millis(1)).await;
        assert!(!fleet.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_settling_goes_by_this_machines_clock() {
        let fleet = Fleet::read(7_000, 5_000, Instant::now());
        assert_eq!(fleet.settles_for(), Some(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(fleet.settles_for(), Some(Duration::ZERO));
        assert_eq!(Fleet::read(0, 5_000, Instant::now()).settles_for(), None);
    }
}
