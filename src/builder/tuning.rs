//! The settings that most leave alone.

use std::time::Duration;

use http::Method;

use super::Builder;
use crate::decide::lane::Width;
use crate::decide::policy::OnUnknown;
use crate::guard::options::OnInvalid;
use crate::settings::{bounds, duration, number};

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

    /// Whether a response to a refused request has the header `x-bloom-guard`, which says why, also with a
    /// [rejection](crate::BloomGuard::rejecting_with) of the application's:
    ///
    /// | value | status | refused because |
    /// |---|---|---|
    /// | `filter; generation=1700000000000000` | 404 | this generation of the filter proves the id absent |
    /// | `null; generation=1700000000000000` | 404 | a 404 or a removal is remembered, while this generation is live |
    /// | `invalid` | [404 or 400](Self::on_invalid) | what the request names cannot be an id |
    /// | `busy` | 503 | the record may exist, and there is no room now |
    ///
    /// An answer of the application's has no such header. For a log of the application's own there is no need of it:
    /// [`Rejected`](crate::Rejected) is in the response's extensions.
    ///
    /// Clients read it, too. It tells the guard's 404 from the handler's, and so a false positive at the first request, and when
    /// the filter was rebuilt. How long a 404 takes tells most of that anyway. A proxy in front can keep it from strangers.
    ///
    /// Defaults to `false`.
    pub fn explain_refusals(mut self, explain: bool) -> Self {
        self.options.explains = explain;
        self
    }

    /// Whether a 410 is taken as a 404 is.
    ///
    /// Defaults to `false`: a 410 says nothing of the record.
    pub fn gone_counts(mut self, counts: bool) -> Self {
        self.options.nulls.gone_counts = counts;
        self
    }

    /// Whether a 404 means the same for everybody. Say so only when no handler answers 404 for a record
    /// that exists and that this caller may not see; otherwise one caller's 404 would hide the record
    /// from its owner. Where only some do, mark the others' responses with
    /// [`Missing`](crate::Missing).
    ///
    /// Defaults to `false`: no 404 to a request with `Authorization` or `Cookie` is remembered for others.
    pub fn shared_absence(mut self, shared: bool) -> Self {
        self.options.nulls.shared = shared;
        self
    }

    /// Whether a 404 counts only when its response carries [`Missing`](crate::Missing). With
    /// `false` any 404 to a request with an id must mean that the record with this id is missing, and
    /// not a part of it, a page beyond its last, the route, or a record of another caller.
    ///
    /// Defaults to what the extractor [says](crate::IdExtractor::is_ambiguous): `false` for a
    /// [`PathPattern`](crate::PathPattern) of one pattern with one capture, `true` for any other.
    pub fn require_marker(mut self, required: bool) -> Self {
        self.options.nulls.marker = required;
        self
    }

    /// The longest a request may take for its 404 to be remembered.
    ///
    /// Defaults to 30 seconds; from 100 milliseconds to 1 hour.
    pub fn handler_time(mut self, time: Duration) -> Self {
        self.settings.handler_time = time;
        self.judge("handler_time", duration("handler_time", time, &bounds::HANDLER_TIME))
    }

    /// How many entries the journal keeps at most, how many ids this process can repeat to a Redis that lost
    /// them, and how many ids created lately are marked.
    ///
    /// With Redis, a call of [`insert`](crate::BloomGuard::insert) makes one entry, and
    /// [`insert_many`](crate::BloomGuard::insert_many) one for each 128 ids, of about 50 bytes and 16 an id. Without Redis each id makes one, of about 32 bytes. A mark takes some 120 bytes, or 80 without Redis; `insert_many` sets them while there are fewer than 100,000.
    ///
    /// An entry is kept for twice `longest_transaction + handler_time`, and 105 minutes more for a rebuild: 136
    /// minutes by default. So the default holds 122 entries a second, all day long. Up to 537 ids a second all
    /// are marked; above that, no 404 is remembered. A rebuild warns in the log when it finds the journal full to
    /// four fifths. When entries are dropped that a rebuild needs, it is given up. Of a filter in shards each has its share of
    /// entries and of marks, and room for 10,000 entries at least.
    ///
    /// Defaults to 1,000,000; from 1,000 to 1,000,000,000.
    pub fn journal_entries(mut self, entries: u64) -> Self {
        const NAME: &str = "journal_entries";
        self.settings.journal_entries = entries;
        self.judge(NAME, number(NAME, entries, &bounds::JOURNAL_ENTRIES))
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
