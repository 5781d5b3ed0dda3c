//! Settings for when nothing is proven, and for how much may be done on the word of a response.

use super::Builder;
use crate::decide::lane::Width;
use crate::decide::policy::{Mode, OnUnknown};
use crate::error::ConfigError;
use crate::settings::{bounds, number, small};

/// What happens when the answer is unknown, and how refusals are watched.
impl<R> Builder<R> {
    /// Whether the guard acts on what it finds.
    /// [`BloomGuard::set_mode`](crate::BloomGuard::set_mode) switches it later.
    ///
    /// Defaults to [`Mode::Enforce`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy.mode = mode;
        self
    }

    /// What to do with a request when the answer about its id is unknown: Redis is away, too slow or
    /// another than the one the filter was verified on, or the filter is gone, damaged or disproved.
    ///
    /// Defaults to [`OnUnknown::PassLimited`].
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.policy.on_unknown = on_unknown;
        self
    }

    /// The same for as long as Redis has said that there is no filter and this process has never seen
    /// one: at a first deploy all requests are unverified, and a lane would be the outage. And where
    /// Redis may evict any key and that was not
    /// [accepted](Self::accept_eviction): then there is no filter to enforce.
    ///
    /// Defaults to [`OnUnknown::Pass`]. [`state`](crate::BloomGuard::state) and the log tell of it.
    pub fn on_unbuilt(mut self, on_unbuilt: OnUnknown) -> Self {
        self.policy.on_unbuilt = on_unbuilt;
        self
    }

    /// How wide the lane for unverified requests is: how many may be with the service within at once,
    /// which is also the longest burst, and how many may enter it in a second. In each process there are
    /// four more of the same width for ids that passed the filter and of which no null could be kept,
    /// replayed by an attacker perhaps: two for those that were missing in requests with `Authorization`
    /// or `Cookie`, for callers who have found something with these credentials and for all others; one
    /// for those whose requests are given up before they are answered; and one for callers who were shown
    /// the record, while the backend answers so many existing ids with 404 that it is not believed.
    ///
    /// A request counts until its response's head is there. Defaults to 64 and 500 a second; from 1 to
    /// 100,000 and from 1 to 1,000,000.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn lane(mut self, concurrency: u32, per_second: u32) -> Result<Self, ConfigError> {
        self.policy.lane = Width {
            concurrency: small("lane concurrency", concurrency, &bounds::LANE_CONCURRENCY)?,
            per_second: small("lane rate", per_second, &bounds::LANE_RATE)?,
        };
        Ok(self)
    }

    /// How many checks may wait for Redis at once. The answer to one above that is unknown at once, with
    /// [`Doubt::Overloaded`](crate::Doubt::Overloaded). 512 of them are on the connection at a time,
    /// the others wait for their turn, all within
    /// [`check_deadline`](Self::check_deadline). Without Redis there is nothing to wait for.
    ///
    /// Defaults to 4,096; from 1 to 65,536.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn checks_in_flight(mut self, checks: u32) -> Result<Self, ConfigError> {
        let bounds = &bounds::CHECKS_IN_FLIGHT;
        self.settings.checks_in_flight = small("checks_in_flight", checks, bounds)?;
        Ok(self)
    }

    /// How many ids are remembered as lately seen to exist, because they were inserted or found by a
    /// response with 2xx or 304. Their requests pass freely while answers are unknown. As many again are
    /// remembered together with who found them, twice as many as missing, and as many again as looked for
    /// now and as given up: 48 bytes an id in this process in all. What is full forgets older ones.
    ///
    /// Defaults to 131,072, which takes 6 MiB; from 1 to 1,073,741,824.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn recently_seen(mut self, ids: u64) -> Result<Self, ConfigError> {
        self.policy.recently_seen = number("recently_seen", ids, &bounds::RECENTLY_SEEN)?;
        Ok(self)
    }

    /// How many refusals a second this process lets through to see whether they are right. A response
    /// with 2xx or 304 to one of them, if the id is held absent still, is an alarm: it is counted in
    /// [`Stats::false_negatives`](crate::Stats::false_negatives) and logged, the id is added, and if it
    /// was missing from the filter, no process trusts that any more until it has been rebuilt.
    ///
    /// A handler that answers 2xx for records that do not exist, from a cache that outlives deletions and
    /// rebuilds, say, must not be audited. Defaults to 1; from
    /// 0, which audits nothing, to 10,000.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn audits_per_second(mut self, audits: u32) -> Result<Self, ConfigError> {
        self.policy.audits = small("audits_per_second", audits, &bounds::AUDITS)?;
        Ok(self)
    }

    /// How many 404s this process remembers in a second at most. Those over it are not remembered, and
    /// their ids keep to a [lane](Self::lane).
    ///
    /// Defaults to 1,000; from 0 to 1,000,000.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn nulls_per_second(mut self, nulls: u32) -> Result<Self, ConfigError> {
        let bounds = &bounds::NULLS_PER_SECOND;
        self.settings.nulls_per_second = small("nulls_per_second", nulls, bounds)?;
        Ok(self)
    }
}
