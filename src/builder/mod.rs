//! How a guard is set up.

mod edge;
mod filter;
mod policy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decide::policy::Policy;
use crate::error::ConfigError;
use crate::extract::IdExtractor;
use crate::guard::{Core, NullLimits};
use crate::middleware::layer::BloomGuard;
use crate::middleware::oversight::Oversight;
use crate::middleware::rejection::NotFound;
use crate::middleware::shared::{Edge, Options};
use crate::observe::metrics::Metrics;
use crate::rebuild::{ErasedSource, RebuildSource, Rebuilder, Schedule};
use crate::settings::{self, Settings, bounds, duration};
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
/// use bloom_guard::{BloomGuard, Doubt, OnInvalid, Query};
///
/// let guard = BloomGuard::builder("users", Query::<u64>::new("user"))?
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
    /// Guards of one name share their filter in Redis. Without Redis each has its own, which knows nothing
    /// of what the other was told: clone the guard, rather than building another.
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
    /// [`rebuild_accepting_loss`](BloomGuard::rebuild_accepting_loss) overrides it once. A source that goes
    /// on giving as few for a day is believed, unless they are none; for a minute while no filter is
    /// trusted.
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

impl<R> Builder<R> {
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
        tell_if_nobody_builds(&settings.name, redis.is_some(), source.is_some());
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
        let oversight = Oversight::new(Arc::clone(&metrics), policy.audits);
        let core = Core::new(Arc::clone(&store), Arc::clone(&metrics), policy, nulls);
        let rebuilder = Rebuilder::new(store, Arc::clone(&extractor), source, &settings, metrics);
        let edge = Arc::new(Edge::new(core, rebuilder, extractor, options, oversight));
        edge.start();
        BloomGuard::new(edge, Arc::new(rejection))
    }
}

/// A guard without a source lets everything pass until another process has built its filter.
fn tell_if_nobody_builds(filter: &str, shared: bool, source: bool) {
    match (shared, source) {
        (_, true) => {}
        (true, false) => {
            tracing::info!(filter, "no source: another process has to build the filter");
        }
        (false, false) => tracing::warn!(
            filter,
            "no source and no redis: no filter will ever be built, and nothing be refused"
        ),
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
