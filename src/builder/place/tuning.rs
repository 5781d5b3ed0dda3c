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
    /// Cuts the filter into this many equal [shards](crate::guide::redis#shards), each a filter of its own: where one string
    /// of 512 MB does not hold it, or Redis takes too long to allocate it. Needs a [`secret_key`](Self::secret_key). All
    /// processes must have the same number; another one is [another filter](crate::guide::fleet#moving-to-another-filter).
    ///
    /// Defaults to 1; a power of two, up to 1,024.
    pub fn shards(mut self, shards: u32) -> Self {
        let is_good = shards.is_power_of_two() && shards <= MOST_SHARDS;
        if !is_good {
            let reason = format!("{shards} is no power of two from 1 to {MOST_SHARDS}");
            return self.judge("shards", Err(SettingError::Invalid { setting: "shards", reason }));
        }
        self.shards = shards;
        self.judge("shards", Ok(())).size()
    }

    /// The longest that a check waits for Redis. Then the answer is [unknown](Self::on_unknown).
    ///
    /// Defaults to 25 milliseconds; from 1 millisecond to 10 seconds.
    pub fn check_deadline(mut self, deadline: Duration) -> Self {
        const NAME: &str = "check_deadline";
        self.settings.check_deadline = deadline;
        self.judge(NAME, duration(NAME, deadline, &CHECK_DEADLINE))
    }

    /// How many bytes [copies of filters](crate::guide::attackers#the-copy) may take in this process, those of all its guards
    /// together: an id that the copy holds passes unasked, and for all that it lacks Redis is asked at once. A copy takes as many as the filter. Where the next one has no room beside it, there is none while that is
    /// read; a filter above the limit has none, which the log says.
    ///
    /// Defaults to 64 MiB: a copy of 34 million ids at 0.1 %, or of 17 million with the next one beside it. 0 for none.
    pub fn copy_limit(mut self, bytes: u64) -> Self {
        self.settings.copy_limit = bytes;
        self.judge("copy_limit", Ok(()))
    }

    /// Whether to refuse also while Redis may evict any key (`maxmemory` with an `allkeys-*` policy), and so lose unseen what
    /// the guard keeps beside the filter.
    ///
    /// Defaults to `false`: nothing is refused then.
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
