//! The settings that most leave alone.

use http::Method;

use super::Builder;
use crate::guard::options::OnInvalid;
use crate::settings::OnUnknown;

/// Settings for tuning.
impl Builder {
    /// What to do with a request when the answer about its id is [unknown](crate::Verdict). Ids found lately or copied pass in
    /// any case; so do all requests while Redis has no filter and this process has never seen one, or while Redis may evict it.
    ///
    /// Defaults to [`OnUnknown::PassLimited`].
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.settings.on_unknown = on_unknown;
        self
    }

    /// How wide the lane is for requests whose answer is unknown, or whose id was lately missed: how many may be with the
    /// service within at once, until their responses' heads are there, and how many may enter in a second. One that lists ids
    /// takes one place, and of the rate as much as it has such ids.
    ///
    /// Choose `per_second` by what the database bears beside its normal load, divided by the number of processes: the wider
    /// the lane, the fewer 503s for ids that exist. `concurrency` is `per_second` times the time to a slow response's head.
    ///
    /// Defaults to 64 and 500 a second; from 1 to 100,000 and from 1 to 1,000,000.
    pub fn lane(mut self, concurrency: u32, per_second: u32) -> Self {
        self.settings.lane_concurrency = concurrency;
        self.settings.lane_per_second = per_second;
        self.bound("lane concurrency", concurrency, 1..=100_000).bound(
            "lane rate",
            per_second,
            1..=1_000_000,
        )
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

    /// How many refusals a second this process lets through to see whether they are right: the canary. A record that is
    /// found is an alarm, and puts the filter out of use until it has been rebuilt: the guide's page
    /// [`findings`](crate::guide::findings). A handler that answers 2xx for records that do not exist must not be audited.
    ///
    /// Defaults to 1; from 0, which audits nothing, to 10,000.
    pub fn audits_per_second(mut self, audits: u32) -> Self {
        self.settings.audits = audits;
        self.bound("audits_per_second", audits, 0..=10_000)
    }
}
