//! The settings that most leave alone.

use http::Method;

use super::Builder;
use crate::decide::lane::Width;
use crate::decide::policy::OnUnknown;
use crate::guard::options::OnInvalid;
use crate::settings::{bounds, number};

/// Settings for tuning.
impl Builder {
    /// What to do with a request when the answer about its id is unknown: Redis is away, too slow or
    /// another than the one the filter was verified on, or the filter is gone, damaged or disproved.
    ///
    /// It does not speak of ids found lately or copied, which pass, nor of a first deploy: while Redis says that there is no
    /// filter, and this process has never seen one, all requests pass. So they do where Redis may evict the filter.
    ///
    /// Defaults to [`OnUnknown::PassLimited`].
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.policy.on_unknown = on_unknown;
        self
    }

    /// How wide the lane is: how many requests may be with the service within at once, which is also the
    /// longest burst, and how many may enter in a second. It takes the requests whose answer is unknown,
    /// and those for ids that were lately missed. A request counts until its response's head is there. One that
    /// lists ids takes one place, and of the rate as much as it has such ids.
    ///
    /// Choose `per_second` by what the database bears beside its normal load, divided by the number of processes: the wider
    /// the lane, the fewer 503s for ids that exist. `concurrency` is `per_second` times the time to a slow response's head:
    /// 500 · 0.1 s = 50, so 64 leaves some room.
    ///
    /// Defaults to 64 and 500 a second; from 1 to 100,000 and from 1 to 1,000,000.
    pub fn lane(mut self, concurrency: u32, per_second: u32) -> Self {
        self.policy.lane = Width { concurrency, per_second };
        self.judge(
            "lane concurrency",
            number("lane concurrency", concurrency, &bounds::LANE_CONCURRENCY),
        )
        .judge("lane rate", number("lane rate", per_second, &bounds::LANE_RATE))
    }

    /// The methods whose requests are checked. Methods that create records must not be among them;
    /// `OPTIONS`, `CONNECT` and `TRACE` ask for no record at all.
    ///
    /// Defaults to `GET` and `HEAD`.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.options.methods = methods.into_iter().collect();
        self
    }

    /// What to do with a request that names something that cannot be an id.
    ///
    /// Defaults to [`OnInvalid::NotFound`].
    pub fn on_invalid(mut self, on_invalid: OnInvalid) -> Self {
        self.options.on_invalid = on_invalid;
        self
    }

    /// How many refusals a second this process lets through to see whether they are right: the canary. A
    /// response with 2xx or 304 to one of them, if the id is held absent still, is an alarm. It is counted
    /// in [`Stats::false_negatives`](crate::Stats::false_negatives) and logged, the id is added and given to
    /// [`next_finding`](crate::BloomGuard::next_finding), and a filter that lacked it is not trusted any more by any process until it has been rebuilt.
    /// With any audits, a few of the ids that are served without being asked about are looked up, too: the guide's page
    /// [`findings`](crate::guide::findings).
    ///
    /// A handler that answers 2xx for records that do not exist, from a cache that outlives deletions and
    /// rebuilds, say, must not be audited. Defaults to 1; from 0, which audits nothing, to 10,000.
    pub fn audits_per_second(mut self, audits: u32) -> Self {
        const NAME: &str = "audits_per_second";
        self.policy.audits = audits;
        self.judge(NAME, number(NAME, audits, &bounds::AUDITS))
    }
}
