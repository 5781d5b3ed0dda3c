//! How a guard is set up: the setters that matter, and `build`.

#[cfg_attr(not(feature = "redis"), path = "in_process.rs")]
pub(crate) mod place;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use self::place::Place;
use crate::error::{ConfigError, SettingError};
use crate::extract::IdExtractor;
use crate::filter::{Sizing, bounded};
use crate::guard::Guard;
use crate::id::SecretKey;
use crate::middleware::layer::BloomGuard;
use crate::nulls::rules::NegativeCaching;
use crate::rebuild::{ErasedSource, RebuildSource, Schedule};
use crate::settings::{self, OnInvalid, OnUnknown, Settings};

const NO_PLACE: &str = "where does the filter live? `in_process()` keeps it in this process, for a service that never has two: each would refuse \
                        what the other creates. `redis(url)`, with the crate feature `redis`, has all processes of the service share it.";

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Sets up a [`BloomGuard`].
///
/// Setters cannot fail: [`build`](Self::build) reports all values that are out of bounds. Where the filter lives has to be
/// said: [`in_process`](Self::in_process), or `redis` with the crate feature of that name.
///
/// ```
/// use std::time::Duration;
///
/// use bloom_guard::extract::Query;
/// use bloom_guard::{BloomGuard, Doubt, NegativeCaching, OnInvalid};
///
/// let guard = BloomGuard::builder("users", Query::<u64>::new("user"))
///     .in_process()
///     .capacity(50_000, 0.01)
///     .negative_caching(NegativeCaching::new().ttl(Duration::from_secs(10)))
///     .on_invalid(OnInvalid::BadRequest)
///     .build()?;
/// assert_eq!(guard.state().live.unwrap_err(), Doubt::NoFilter);
///
/// let wrong = BloomGuard::builder("users", Query::<u64>::new("user"))
///     .in_process()
///     .capacity(0, 0.01)
///     .negative_caching(NegativeCaching::new().ttl(Duration::ZERO))
///     .build();
/// assert_eq!(wrong.unwrap_err().problems().len(), 2);
/// # Ok::<(), bloom_guard::ConfigError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    /// Its sizing is worked out last, by the numbers that it has.
    pub(crate) settings: Settings,
    pub(crate) place: Place,
    source: Option<(Schedule, Arc<dyn ErasedSource>)>,
    extractor: Arc<dyn IdExtractor>,
    /// The setters that were called, and what is wrong with each.
    judged: Vec<(&'static str, Result<(), SettingError>)>,
}

impl BloomGuard {
    /// Begins to set up a guard for the records of one kind. `name` is the filter's name, the same in all
    /// processes that share it: 1 to 64 of `A-Z a-z 0-9 _ . : -`. `extractor` finds the id in a request.
    ///
    /// Guards of one name share their filter in Redis, and must get their ids from the same records: each rebuild replaces the filter
    /// of all. In a process, clone the guard rather than building another: a second one has a lane, a rebuild task and connections of
    /// its own, and without Redis a filter of its own.
    pub fn builder(name: impl Into<String>, extractor: impl IdExtractor) -> Builder {
        let settings = Settings::new(name.into());
        let named = settings::name(&settings.name);
        let builder = Builder {
            settings,
            place: Place::default(),
            source: None,
            extractor: Arc::new(extractor),
            judged: Vec::new(),
        };
        builder.judge("name", named)
    }
}

/// The settings that matter.
impl Builder {
    /// Keeps the filter in this process: for a service of *one* process. Of two, each refuses the records that the other has
    /// created since the last rebuild, until the canary finds one of them. A service of several processes, now or while a new
    /// version replaces the old one, needs `redis`.
    pub fn in_process(self) -> Self {
        self.judge("in_process", Ok(()))
    }

    /// Sizes the filter for this many ids, and for this share of absent ids that it lets pass when it is full: 0.001 is one
    /// in a thousand. A rebuild that finds more ids sizes it for those.
    ///
    /// Defaults to 1,000,000 ids at 0.001, which takes 1.9 MB; see [`Sizing::new`] for the bounds.
    pub fn capacity(mut self, ids: u64, false_positive_rate: f64) -> Self {
        self.settings.sizing.capacity = ids;
        self.settings.sizing.rate = false_positive_rate;
        self
    }

    /// Rebuilds the filter from a source: by schedule, and at once whenever there is no filter to trust. Of all processes
    /// that share the filter, one does it at a time.
    ///
    /// Defaults to no rebuild by this process.
    pub fn rebuild(mut self, schedule: Schedule, source: impl RebuildSource) -> Self {
        let judged = schedule.judge();
        self.source = Some((schedule, Arc::new(source)));
        self.judge("rebuild", judged)
    }

    /// Which 404s are remembered, so that further requests for the same id are refused at once.
    ///
    /// Defaults to [`NegativeCaching::new`], with the values that it has.
    pub fn negative_caching(mut self, caching: NegativeCaching) -> Self {
        self.settings.nulls = caching;
        self.bound("negative_caching ttl", caching.ttl, SECOND..=HOUR).bound(
            "negative_caching handler_time",
            caching.handler_time,
            Duration::from_millis(100)..=HOUR,
        )
    }

    /// The longest time from an insert's call to the end of the transaction that creates the record. A longer transaction
    /// can lose its id in a rebuild: have the database end it first. Of processes that differ the longest time counts,
    /// until [`enforce_everywhere`](crate::BloomGuard::enforce_everywhere) is called without its process (twice, if a call has failed).
    ///
    /// Defaults to 15 minutes; from 1 second to 24 hours.
    pub fn longest_transaction(mut self, time: Duration) -> Self {
        self.settings.longest_transaction = time;
        self.bound("longest_transaction", time, SECOND..=24 * HOUR)
    }

    /// The key of the digests, which makes false positives impossible to forge. All processes that share a filter must have
    /// the same; a filter with another key is [another filter](crate::guide::fleet#moving-to-another-filter).
    ///
    /// Defaults to a random one, drawn once for a filter and kept in Redis with it, or drawn anew by every process without Redis.
    pub fn secret_key(mut self, key: SecretKey) -> Self {
        self.settings.secret_key = Some(key);
        self.judge("secret_key", Ok(()))
    }

    /// Builds the guard. Waits for nothing: Redis may be down, and the database too. What runs in the
    /// background starts now if there is a Tokio runtime, or else with the first request, check or
    /// insert in one. It stays in that runtime while there is one: another's requests are answered only while the first one runs.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with every setting that cannot be accepted, its value and its limits; or that has no effect where the
    /// filter lives.
    pub fn build(self) -> Result<BloomGuard, ConfigError> {
        let called = |setter| self.judged.iter().any(|(called, _)| *called == setter);
        let misplaced = match (called("in_process"), called("redis")) {
            (false, false) => Err(NO_PLACE),
            (true, true) => Err("in_process and redis: the filter lives in one of the two"),
            (true, false) | (false, true) => Ok(()),
        };
        let misplaced = misplaced.map_err(|reason| SettingError::Combination { reason });
        let Self { mut settings, place, source, extractor, mut judged, .. } = self;
        settings.nulls.marker.get_or_insert(extractor.is_ambiguous());
        judged.push(("place", misplaced));
        let Sizing { capacity, rate, shards, .. } = settings.sizing;
        let sizing = Sizing::sharded(capacity, rate, shards);
        judged.push(("capacity", sizing.map(|sizing| settings.sizing = sizing)));
        let store = place.store(&settings, judged).map_err(ConfigError)?;
        let guard = BloomGuard::new(Guard::new(store, extractor, source, settings));
        guard.start();
        Ok(guard)
    }

    fn bound<T: Copy + fmt::Debug + PartialOrd>(
        self,
        setting: &'static str,
        value: T,
        bounds: RangeInclusive<T>,
    ) -> Self {
        self.judge(setting, bounded(setting, value, &bounds))
    }

    /// Notes that a setter was called, and what is wrong with its value. The last call counts.
    fn judge(mut self, setting: &'static str, judged: Result<(), SettingError>) -> Self {
        self.judged.retain(|(name, _)| *name != setting);
        self.judged.push((setting, judged));
        self
    }
}

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
    /// `OPTIONS`, `CONNECT` and `TRACE` ask for no record at all. Only of `GET` and `HEAD` the
    /// [canary](crate::guide::operating#the-canary) sees whether refusals are right.
    ///
    /// Defaults to `GET` and `HEAD`.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.settings.methods = methods.into_iter().collect();
        self
    }

    /// What to do with a request that names something that cannot be an id.
    ///
    /// Defaults to [`OnInvalid::NotFound`].
    pub fn on_invalid(mut self, on_invalid: OnInvalid) -> Self {
        self.settings.on_invalid = on_invalid;
        self
    }

    /// How many refusals a second this process lets through, after its first ten, to see whether they are right: the canary. A
    /// record that is found is an alarm, and puts the filter out of use until it has been rebuilt: the guide's page
    /// [the canary](crate::guide::operating#the-canary). A handler that answers 2xx for records that do not exist must not be audited.
    /// Of two guards around one handler, the inner one takes a sample of its own of what the outer one lets through.
    ///
    /// Defaults to 1; from 0, which audits nothing outside of [`Mode::Shadow`](crate::Mode::Shadow), to 10,000.
    pub fn audits_per_second(mut self, audits: u32) -> Self {
        self.settings.audits = audits;
        self.bound("audits_per_second", audits, 0..=10_000)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, place, .. } = self;
        let mut shown = f.debug_struct("Builder");
        shown.field("settings", settings).field("place", place).finish_non_exhaustive()
    }
}
