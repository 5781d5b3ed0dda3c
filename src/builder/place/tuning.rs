//! The settings of a filter in Redis that most leave alone.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::builder::Builder;
use crate::error::SettingError;
use crate::settings::duration;
use crate::store::redis::keys::MOST_SHARDS;

/// The bounds of the deadline.
const CHECK_DEADLINE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// Settings for tuning, with the crate feature `redis`. With [`in_process`](Builder::in_process) each is an error.
impl Builder {
    /// Into how many equal shards the filter is cut: a power of two, up to 1,024. Each is a filter of its own, with its own keys
    /// in Redis, its own journal and generation; one that fails takes no other with it. A rebuild fills all from one scan, and
    /// puts one after the other live.
    ///
    /// For filters that do not fit one string of 512 MB, or that Redis takes too long to allocate: 6 MB a shard, which is 5
    /// million ids at 1 %, stops no other command for longer than a millisecond. Needs a [`secret_key`](Self::secret_key), by
    /// which ids are told apart before Redis is asked. All processes have to have the same number: another one is another
    /// filter, to which a fleet [moves](crate::guide::fleet#moving-to-another-filter). See the guide's page [`redis`](crate::guide::redis#shards).
    ///
    /// Defaults to 1.
    pub fn shards(mut self, shards: u32) -> Self {
        let is_good = shards.is_power_of_two() && shards <= MOST_SHARDS;
        if !is_good {
            let wrong = SettingError::Shards { value: shards, max: MOST_SHARDS };
            return self.judge("shards", Err(wrong));
        }
        self.shards = shards;
        self.judge("shards", Ok(())).size()
    }

    /// The longest that a check waits for Redis. When it runs out the answer is unknown; see
    /// [`on_unknown`](Self::on_unknown).
    ///
    /// Defaults to 25 milliseconds; from 1 millisecond to 10 seconds.
    pub fn check_deadline(mut self, deadline: Duration) -> Self {
        const NAME: &str = "check_deadline";
        self.settings.check_deadline = deadline;
        self.judge(NAME, duration(NAME, deadline, &CHECK_DEADLINE))
    }

    /// How many bytes copies of filters may take in this process. Those of all guards of the process count together: a guard
    /// makes a copy only if all of them stay within its limit, and the first to ask has the room.
    ///
    /// A copy of the live filter in Redis lets requests for ids that exist pass without asking Redis, also while Redis is
    /// away. It takes as many bytes as the filter. Where there is no room for the next one beside it, it goes first, and there is
    /// none while the next is read. A filter above the limit has no copy, which the log says; nor have filters that other
    /// systems write. See the guide's page [`attackers`](crate::guide::attackers) for the price.
    ///
    /// Defaults to 64 MiB: a copy of 34 million ids at 0.1 %, or of 17 million with the next one beside it. 0 for none.
    pub fn copy_limit(mut self, bytes: u64) -> Self {
        self.settings.copy_limit = bytes;
        self.judge("copy_limit", Ok(()))
    }

    /// Whether to refuse also while Redis may evict any key (`maxmemory` with an `allkeys-*` policy).
    /// It then takes keys of the filter one by one, and what is gone is only noticed afterwards: parts of what the guard
    /// keeps beside the filter may be lost unseen.
    ///
    /// Defaults to `false`: nothing is refused then, and every verdict that would be is
    /// [`Refusal::EVICTION`](crate::Refusal::EVICTION).
    pub fn accept_eviction(mut self, accept: bool) -> Self {
        self.settings.accept_eviction = accept;
        self.judge("accept_eviction", Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_default_is_within_the_bounds() {
        assert!(CHECK_DEADLINE.contains(&Settings::new("users".into()).check_deadline));
    }
}
