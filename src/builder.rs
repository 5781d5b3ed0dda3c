//! How a guard is set up.

mod policy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::edge::{Edge, OnInvalid, Options};
use crate::error::ConfigError;
use crate::extract::IdExtractor;
use crate::filter::Sizing;
use crate::guard::{Core, NullLimits};
use crate::id::SecretKey;
use crate::layer::BloomGuard;
use crate::metrics::Metrics;
use crate::policy::Policy;
use crate::rebuild::{ErasedSource, RebuildSource, Rebuilder, Schedule};
use crate::rejection::NotFound;
use crate::settings::{self, Settings, bounds, duration, number};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::{RedisStore, Server};

/// How long a removal is remembered without a regular schedule.
const REMOVED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Sets up a [`BloomGuard`].
///
/// A setter whose value can be wrong says so at once; [`build`](Self::build) cannot fail.
///
/// ```
/// use std::time::Duration;
///
/// use bloom_guard::{BloomGuard, Doubt, Extraction, Id, OnInvalid};
/// use http::request::Parts;
///
/// let last_segment = |parts: &Parts| match parts.uri.path().rsplit('/').next().map(Id::new) {
///     Some(Ok(id)) => Extraction::Id(id),
///     Some(Err(reason)) => Extraction::Invalid(reason),
///     None => Extraction::Unguarded,
/// };
/// let guard = BloomGuard::builder("users", last_segment)?
///     .capacity(50_000, 0.01)?
///     .negative_ttl(Duration::from_secs(10))?
///     .on_invalid(OnInvalid::BadRequest)
///     .build();
///
/// assert_eq!(guard.state().live.unwrap_err(), Doubt::NoFilter);
/// # Ok::<(), bloom_guard::ConfigError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<R = NotFound> {
    pub(crate) settings: Settings,
    pub(crate) redis: Option<Server>,
    source: Option<(Schedule, Arc<dyn ErasedSource>)>,
    extractor: Arc<dyn IdExtractor>,
    options: Options,
    policy: Policy,
    rejection: R,
}

impl BloomGuard {
    /// Begins to set up a guard for the records of one kind: `name` is the filter's name, the same in
    /// all processes that share it, and `extractor` finds the id in a request.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Name`] when the name is not 1 to 64 of `A-Z a-z 0-9 _ . : -`;
    /// [`ConfigError::Random`] when the system has no random numbers to give.
    pub fn builder(
        name: impl Into<String>,
        extractor: impl IdExtractor,
    ) -> Result<Builder, ConfigError> {
        Ok(Builder {
            settings: Settings::new(name.into())?,
            redis: None,
            source: None,
            options: Options::for_extractor(&extractor),
            extractor: Arc::new(extractor),
            policy: Policy::default(),
            rejection: NotFound,
        })
    }
}

/// What the filter holds, and for how long what is remembered.
impl<R> Builder<R> {
    /// How many ids the filter is sized for, and how many absent ids in one it may let pass when it is
    /// full: 0.001 is one in a thousand. A rebuild that finds more ids sizes the filter for those.
    ///
    /// Defaults to 1,000,000 ids at 0.001, which takes 1.9 MB.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Sizing`] when there is no such filter; see [`Sizing::new`] for the bounds.
    pub fn capacity(mut self, ids: u64, false_positive_rate: f64) -> Result<Self, ConfigError> {
        self.settings.sizing = Sizing::new(ids, false_positive_rate)?;
        Ok(self)
    }

    /// How long a null lasts: for that long after a 404 requests for the same id are refused at once.
    /// Spread by up to a tenth either way.
    ///
    /// Defaults to 30 seconds; from 1 second to 1 hour.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn negative_ttl(mut self, ttl: Duration) -> Result<Self, ConfigError> {
        self.settings.null_ttl = duration("negative_ttl", ttl, &bounds::NULL_TTL)?;
        Ok(self)
    }

    /// How long a removed id is remembered, spread by up to a tenth either way.
    ///
    /// Defaults to somewhat more than the time between two rebuilds, or to 24 hours without a regular
    /// schedule; from 1 second to 31 days.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn removed_ttl(mut self, ttl: Duration) -> Result<Self, ConfigError> {
        self.settings.removed_ttl = Some(duration("removed_ttl", ttl, &bounds::REMOVED_TTL)?);
        Ok(self)
    }

    /// The longest time from an insert to the end of the transaction that creates the record. A
    /// transaction that takes longer can lose its id in a rebuild, so make sure that the database
    /// ends it first.
    ///
    /// Defaults to 15 minutes; from 1 second to 24 hours. Processes that share a filter may differ: the
    /// longest time any of them stated counts, for as long as the filter's metadata lives.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn longest_transaction(mut self, time: Duration) -> Result<Self, ConfigError> {
        let bounds = &bounds::LONGEST_TRANSACTION;
        self.settings.longest_transaction = duration("longest_transaction", time, bounds)?;
        Ok(self)
    }

    /// The longest time a rebuild takes. The journal of inserts reaches back for this and for
    /// [`longest_transaction`](Self::longest_transaction); a rebuild for which that was not enough is
    /// given up, and the live filter stays.
    ///
    /// Defaults to 105 minutes, so that the journal covers 2 hours; from 1 minute to 24 hours.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn longest_rebuild(mut self, time: Duration) -> Result<Self, ConfigError> {
        let bounds = &bounds::LONGEST_REBUILD;
        self.settings.longest_rebuild = duration("longest_rebuild", time, bounds)?;
        Ok(self)
    }

    /// The longest a request may take for its 404 to be remembered.
    ///
    /// Defaults to 30 seconds; from 100 milliseconds to 1 hour.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn handler_time(mut self, time: Duration) -> Result<Self, ConfigError> {
        self.settings.handler_time = duration("handler_time", time, &bounds::HANDLER_TIME)?;
        Ok(self)
    }

    /// How many inserts the journal keeps at most, about 32 bytes each in this process and
    /// 50 in Redis, how many inserts this process can repeat to a Redis that lost them, and how many ids created lately it marks, 120 bytes each. When more than that fall into
    /// the time it covers, rebuilds are given up.
    ///
    /// Defaults to 1,000,000; from 1,000 to 1,000,000,000.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn journal_entries(mut self, entries: u64) -> Result<Self, ConfigError> {
        let bounds = &bounds::JOURNAL_ENTRIES;
        self.settings.journal_entries = number("journal_entries", entries, bounds)?;
        Ok(self)
    }

    /// Whether to refuse also while Redis may evict any key (`maxmemory` with an `allkeys-*` policy).
    /// It then takes parts of the books one by one, and what is gone is only noticed afterwards.
    ///
    /// Defaults to false: nothing is refused then, and every verdict that would be is
    /// [`Doubt::Eviction`](crate::Doubt::Eviction).
    pub fn accept_eviction(mut self, accept: bool) -> Self {
        self.settings.accept_eviction = accept;
        self
    }

    /// How many bytes the nulls in this process may take, about 350 each. With Redis they are kept there,
    /// and this means nothing.
    ///
    /// Defaults to 8 MiB, which is some 23,800 nulls; from 64 KiB to 4 GiB.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn null_cache_bytes(mut self, bytes: u64) -> Result<Self, ConfigError> {
        let bounds = &bounds::NULL_CACHE_BYTES;
        self.settings.null_cache_bytes = number("null_cache_bytes", bytes, bounds)?;
        Ok(self)
    }

    /// The key of the digests, which makes false positives impossible to forge. All processes that
    /// share a filter must have the same. To change it, give the filter another name.
    ///
    /// Defaults to a random one: drawn once per filter and kept in Redis with it, or drawn anew by
    /// every process without Redis.
    pub fn secret_key(mut self, key: SecretKey) -> Self {
        self.settings.secret_key = Some(key);
        self
    }
}

/// Where the filter lives and where its ids come from.
impl<R> Builder<R> {
    /// Keeps filter, journal and nulls in the Redis at this URL, shared by all processes that use the
    /// same name: `redis://[user][:password@]host[:port][/database]`, `rediss://` for TLS (with the
    /// crate feature `tls`), `redis+unix://` for a socket. Redis 6.2 or later, or Valkey.
    ///
    /// Defaults to keeping them in this process.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RedisUrl`] when the URL cannot be read, [`ConfigError::TlsFeature`] when it asks
    /// for TLS and the crate was built without. Whether a server is there does not matter now.
    pub fn redis(mut self, url: &str) -> Result<Self, ConfigError> {
        self.redis = Some(Server::parse(url)?);
        Ok(self)
    }

    /// The longest that a check waits for Redis. When it runs out the answer is unknown; see
    /// [`on_unknown`](Self::on_unknown).
    ///
    /// Defaults to 25 milliseconds; from 1 millisecond to 10 seconds.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Duration`] when out of bounds.
    pub fn check_deadline(mut self, deadline: Duration) -> Result<Self, ConfigError> {
        let bounds = &bounds::CHECK_DEADLINE;
        self.settings.check_deadline = duration("check_deadline", deadline, bounds)?;
        Ok(self)
    }

    /// Rebuilds the filter from a source: by schedule, and at once whenever there is no filter to
    /// trust. Of all the processes that share the filter, one does it at a time.
    ///
    /// Defaults to no source, and so to no rebuild by this process.
    pub fn rebuild(mut self, schedule: Schedule, source: impl RebuildSource) -> Self {
        self.source = Some((schedule, Arc::new(source)));
        self
    }

    /// The share of ids, 0 to 1, by which a rebuild may fall short of the filter it replaces. One that
    /// falls shorter is given up, as an empty view or a wrong tenant must not go live;
    /// [`rebuild_accepting_loss`](BloomGuard::rebuild_accepting_loss) overrides it once.
    ///
    /// Defaults to 0.1.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Number`] when out of bounds.
    pub fn shrink_limit(mut self, share: f64) -> Result<Self, ConfigError> {
        self.settings.shrink_limit = settings::share("shrink_limit", share, &bounds::SHRINK_LIMIT)?;
        Ok(self)
    }
}

/// Which requests are guarded, and what their responses look like.
impl<R> Builder<R> {
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

    /// Whether a 410 is remembered as a 404 is.
    ///
    /// Defaults to `false`.
    pub fn gone_counts(mut self, counts: bool) -> Self {
        self.options.absence.gone_counts = counts;
        self
    }

    /// Whether a 404 means the same for everybody. Say so only when no handler answers 404 for a record
    /// that exists and that this caller may not see; otherwise one caller's 404 would hide the record
    /// from its owner. Where only some do, mark the others' responses with
    /// [`Missing`](crate::Missing).
    ///
    /// Defaults to `false`: nothing is learnt from requests with `Authorization` or `Cookie`.
    pub fn shared_absence(mut self, shared: bool) -> Self {
        self.options.absence.shared = shared;
        self
    }

    /// Whether a 404 is remembered only when its response carries [`Missing`](crate::Missing). With
    /// `false` any 404 to a request with an id must mean that the record with this id is missing, and
    /// not a part of it, a page beyond its last, or the route.
    ///
    /// Defaults to what the extractor [says](IdExtractor::is_ambiguous): `false` for a
    /// [`PathPattern`](crate::PathPattern) of one pattern with one capture, `true` for any other.
    pub fn require_marker(mut self, required: bool) -> Self {
        self.options.absence.marker = required;
        self
    }

    /// Whether the responses to admitted requests carry their [`Verdict`](crate::Verdict) as an
    /// extension. That costs an allocation for each. Those to refused requests carry a
    /// [`Rejected`](crate::Rejected) in any case.
    ///
    /// Defaults to `false`.
    pub fn expose_verdict(mut self, expose: bool) -> Self {
        self.options.expose_verdict = expose;
        self
    }

    /// What makes the response to a refused request.
    ///
    /// Defaults to [`NotFound`].
    pub fn rejection<R2>(self, rejection: R2) -> Builder<R2> {
        let Self { settings, redis, source, extractor, options, policy, rejection: _ } = self;
        Builder { settings, redis, source, extractor, options, policy, rejection }
    }

    /// Builds the guard. Waits for nothing: Redis may be down, and the database too. What runs in the
    /// background starts now if there is a Tokio runtime, or else with the first request, check or
    /// insert in one.
    #[must_use]
    pub fn build(self) -> BloomGuard<R> {
        let Self { settings, redis, source, extractor, options, policy, rejection } = self;
        let schedule = source.as_ref().map(|(schedule, _)| schedule);
        let removed_ttl = settings
            .removed_ttl
            .or_else(|| schedule.and_then(Schedule::longest_gap))
            .unwrap_or(REMOVED_TTL);
        let store: Arc<dyn Store> = match redis {
            Some(server) => Arc::new(RedisStore::new(&settings, server)),
            None => Arc::new(MemoryStore::new(&settings)),
        };
        let metrics = Arc::new(Metrics::new(&settings.name));
        let per_second = settings.nulls_per_second;
        let nulls = NullLimits { ttl: settings.null_ttl, removed_ttl, per_second };
        let core = Core::new(Arc::clone(&store), metrics, policy, nulls);
        let rebuilder = Rebuilder::new(store, Arc::clone(&extractor), source, &settings);
        let edge = Arc::new(Edge::new(core, rebuilder, extractor, options));
        edge.start();
        BloomGuard::new(edge, Arc::new(rejection))
    }
}

impl<R> fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, redis, options, policy, .. } = self;
        f.debug_struct("Builder")
            .field("settings", settings)
            .field("redis", redis)
            .field("options", options)
            .field("policy", policy)
            .finish_non_exhaustive()
    }
}
