//! What all processes of one filter go by: until when it settles, and what its record of recent inserts holds.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::Record;
use crate::store::link::transport::CLOCKS_PART;

/// For how long a reading holds, from when it was asked for: a session is polled once a second, for a second and a half at most.
pub(crate) const HOLDS: Duration = Duration::from_secs(3);

/// A clock that is slewed may gain a twelfth (`maxslewrate` of chrony), and nobody notices: an eighth more is needed.
const SLEWED: u32 = 8;

/// Returns how much a rebuild needs of a record that reaches back so long: half of it, longer than a transaction and its insert, and
/// some more.
pub(crate) fn needed_of_record(reach: Duration) -> Duration {
    reach / 2 + reach / 2 / SLEWED + CLOCKS_PART * 2
}

/// What the metadata said when a connection last read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    /// None once the filter has settled.
    pub(crate) settling: Option<Settling>,
    pub(crate) record: Option<Record>,
    /// When it was read, by Redis's clock, ms.
    pub(crate) told_ms: i64,
    pub(crate) read: Instant,
}

/// A filter that settles: a process may still run that does not insert into it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling {
    /// A rebuild that begins later ends settling; by Redis's clock, ms.
    pub(crate) until_ms: i64,
    /// The same moment by this machine's clock.
    until: Instant,
}

impl Settling {
    /// Returns for how long from now; zero once a rebuild may begin.
    pub(crate) fn rest(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl Fleet {
    /// Reads the reply to a join that was sent at `read`. `until_ms` is 0 once the filter has settled, `now_ms` Redis's clock.
    pub(crate) fn read(until_ms: i64, now_ms: i64, read: Instant) -> Self {
        let rest = Duration::from_millis(u64::try_from(until_ms - now_ms).unwrap_or(0));
        let settling = (until_ms > 0).then(|| Settling { until_ms, until: read + rest });
        Self { settling, record: None, told_ms: now_ms, read }
    }

    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        Self::read(0, 0, Instant::now())
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
        let fleet = Fleet::fixed();
        assert!(fleet.holds());
        tokio::time::advance(HOLDS + Duration::from_millis(1)).await;
        assert!(!fleet.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_settling_goes_by_this_machines_clock() {
        let fleet = Fleet::read(7_000, 5_000, Instant::now());
        let settling = fleet.settling.unwrap();
        assert_eq!(settling.rest(), Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(settling.rest(), Duration::ZERO);
        assert!(Fleet::read(0, 5_000, Instant::now()).settling.is_none());
    }
}
