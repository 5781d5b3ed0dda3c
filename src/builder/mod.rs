//! How a guard is set up: the setters that matter, and `build`.

mod access;
pub(crate) mod old;
mod registry;
mod stores;
mod tuning;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::old::{Old, OldFilter, OwnFilter};
use self::stores::store;
use crate::decide::policy::Policy;
use crate::error::{ConfigError, SettingError};
use crate::extract::IdExtractor;
use crate::filter::Sizing;
use crate::guard::{Guard, NullLimits};
use crate::id::SecretKey;
use crate::middleware::layer::BloomGuard;
use crate::middleware::options::Options;
use crate::middleware::shared::Shared;
use crate::observe::metrics::Metrics;
use crate::rebuild::{ErasedSource, RebuildSource, Rebuilder, Schedule};
use crate::settings::{self, Settings, bounds};
use crate::store::foreign::filter::ForeignFilter;
use crate::store::foreign::handle::ForeignHandle;
use crate::store::link::access::Access;
use crate::store::map::endpoint::Endpoint;

/// How long a removal is remembered without a regular schedule.
const REMOVED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Sets up a [`BloomGuard`].
///
/// Setters cannot fail: [`build`](Self::build) reports all values that are out of bounds. Six settings
/// matter to most; the others are for tuning.
///
/// ```
/// use std::time::Duration;
///
/// use bloom_guard::{BloomGuard, Doubt, OnInvalid, Query};
///
/// let guard = BloomGuard::builder("users", Query::<u64>::new("user"))
///     .capacity(50_000, 0.01)
///     .negative_ttl(Duration::from_secs(10))
///     .on_invalid(OnInvalid::BadRequest)
///     .build()?;
/// assert_eq!(guard.state().live.unwrap_err(), Doubt::NoFilter);
///
/// let wrong = BloomGuard::builder("users", Query::<u64>::new("user"))
///     .capacity(0, 0.01)
///     .negative_ttl(Duration::ZERO)
///     .build();
/// assert_eq!(wrong.unwrap_err().problems().len(), 2);
/// # Ok::<(), bloom_guard::ConfigError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    pub(crate) settings: Settings,
    pub(crate) redis: Option<Endpoint>,
    /// What it is reached with, beside what its URL says.
    access: Access,
    foreign: Option<ForeignFilter>,
    /// The guard's filter that it moves away from, if it is one.
    old: Option<OwnFilter>,
    is_migrating: bool,
    /// How many ids at which rate, and over how many shards.
    capacity: (u64, f64),
    pub(crate) shards: u32,
    source: Option<(Schedule, Arc<dyn ErasedSource>)>,
    extractor: Arc<dyn IdExtractor>,
    options: Options,
    pub(crate) policy: Policy,
    problems: Vec<(&'static str, SettingError)>,
}

impl BloomGuard {
    /// Begins to set up a guard for the records of one kind. `name` is the filter's name, the same in all
    /// processes that share it: 1 to 64 of `A-Z a-z 0-9 _ . : -`. `extractor` finds the id in a request.
    ///
    /// Guards of one name share their filter in Redis. Without Redis each has its own, which knows nothing
    /// of what the other was told: clone the guard, rather than building another. A second guard of one
    /// name on one Redis works as in a process of its own, with three more connections, a lane and a
    /// rebuild task; a line in the log says so.
    ///
    /// Guards of one name must get their ids from the same records: each rebuild replaces the filter
    /// of all. Processes whose capacity, rate or times differ say so in their logs, once.
    pub fn builder(name: impl Into<String>, extractor: impl IdExtractor) -> Builder {
        let settings = Settings::new(name.into());
        let (named, sizing) = (settings::name(&settings.name), settings.sizing);
        let builder = Builder {
            settings,
            capacity: (sizing.capacity(), sizing.rate()),
            shards: 1,
            redis: None,
            access: Access::default(),
            foreign: None,
            old: None,
            is_migrating: false,
            source: None,
            options: Options::for_extractor(&extractor),
            extractor: Arc::new(extractor),
            policy: Policy::default(),
            problems: Vec::new(),
        };
        builder.judge("name", named)
    }
}

/// The settings that matter.
impl Builder {
    /// Keeps filter, journal and nulls in the Redis at this URL, shared by all processes that use the
    /// same name. Redis 6.2 or later, or Valkey. Whether a server is there does not matter now.
    ///
    /// | URL | what |
    /// |---|---|
    /// | `redis://[user][:password@]host[:port][/database]` | a server |
    /// | `redis+unix:///path` | a server's socket |
    /// | `redis+sentinel://[user][:password@]host[:port][,host[:port]…]/name[/database]` | the primary that a majority of these [Sentinels](crate::guide::redis#sentinel) knows by this name; user and password are the primary's |
    /// | `redis+cluster://[user][:password@]host[:port][,host[:port]…]` | the node that serves the filter's slot in the [cluster](crate::guide::redis#cluster) of these nodes |
    /// | `rediss://`, `rediss+sentinel://`, `rediss+cluster://` | the same with TLS, to the Sentinels, too (with the crate feature `tls`) |
    ///
    /// Where Sentinels want a password of their own: `?sentinel_username=…&sentinel_password=…`, the first if there is one, with
    /// `& + % #` percent-encoded.
    ///
    /// In a password, `/ ? # @` are percent-encoded. TLS trusts the system's root certificates, unless `tls` says otherwise. The feature `tls` installs
    /// rustls's `ring` provider, unless the application chose one before.
    ///
    /// Defaults to keeping them in this process.
    pub fn redis(mut self, url: &str) -> Self {
        let endpoint = Endpoint::parse(url);
        self.redis = endpoint.as_ref().ok().cloned();
        self.judge("redis", endpoint.map(drop))
    }

    /// Stands in front of a filter that another system writes, in the Redis at [`redis`](Self::redis), instead of one of the
    /// guard's own: [`insert`](BloomGuard::insert) writes to it as that system does. See the guide's page
    /// [`other_filters`](crate::guide::other_filters).
    ///
    /// Nothing is refused before the application has said that the filter is whole:
    /// [`ForeignHandle::trust_after`](crate::ForeignHandle::trust_after). With [`rebuild`](Self::rebuild) and
    /// [`Schedule::manual`] it is refilled in place after that, whenever trust was lost; any other schedule is an error.
    ///
    /// Defaults to a filter of the guard's own.
    pub fn foreign(mut self, mut filter: ForeignFilter) -> Self {
        let judged = filter.judge();
        (self.foreign, self.old) = (Some(filter), None);
        self.is_migrating = false;
        self.judge("foreign", judged)
    }

    /// Moves from another filter to this guard's own: from one that another system writes, in the Redis at
    /// [`redis`](Self::redis), or from a guard's of another name, on another Redis, with another secret key, or in another
    /// number of shards ([`OldFilter`]). Inserts go to both, for as long as this is set. The old one answers until
    /// [`hand_over`](BloomGuard::hand_over); then the guard's own does. See the guide's pages
    /// [`fleet`](crate::guide::fleet#moving-to-another-filter) and [`other_filters`](crate::guide::other_filters).
    ///
    /// Defaults to no other filter.
    pub fn migrate_from(self, old: impl Into<OldFilter>) -> Self {
        match old.into().0 {
            Old::Foreign(filter) => Self { is_migrating: true, ..self.foreign(*filter) },
            Old::Own(mut old) => {
                let judged = old.judge();
                let this = Self { old: Some(old), foreign: None, is_migrating: true, ..self };
                this.judge("foreign", judged)
            }
        }
    }

    /// How many ids the filter is sized for, and how many absent ids in one it may let pass when it is
    /// full: 0.001 is one in a thousand. A rebuild that finds more ids sizes the filter for those. As many
    /// ids, and a million at most, are remembered as found lately, 16 bytes each.
    ///
    /// Defaults to 1,000,000 ids at 0.001, which takes 1.9 MB; see [`Sizing::new`] for the bounds.
    pub fn capacity(mut self, ids: u64, false_positive_rate: f64) -> Self {
        self.capacity = (ids, false_positive_rate);
        self.size()
    }

    /// Rebuilds the filter from a source: by schedule, and at once whenever there is no filter to
    /// trust. Of all the processes that share the filter, one does it at a time.
    ///
    /// Defaults to no source, and so to no rebuild by this process.
    pub fn rebuild(mut self, schedule: Schedule, source: impl RebuildSource) -> Self {
        let judged = schedule.judge();
        self.source = Some((schedule, Arc::new(source)));
        self.judge("rebuild", judged)
    }

    /// How long a null lasts: for that long after a 404 to a plain GET, requests for the same id without credentials
    /// are refused at once. Spread by up to a tenth either way.
    ///
    /// Defaults to 30 seconds; from 1 second to 1 hour.
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.settings.null_ttl = ttl;
        self.judge("negative_ttl", settings::duration("negative_ttl", ttl, &bounds::NULL_TTL))
    }

    /// The longest time from an insert's call to the end of the transaction that creates the record. A
    /// transaction that takes longer can lose its id in a rebuild, so make sure that the database
    /// ends it first.
    ///
    /// Defaults to 15 minutes; from 1 second to 24 hours. Processes that share a filter may differ: the
    /// longest time that any of them states counts, and for about twice that long after it was last stated.
    pub fn longest_transaction(mut self, time: Duration) -> Self {
        const NAME: &str = "longest_transaction";
        self.settings.longest_transaction = time;
        self.judge(NAME, settings::duration(NAME, time, &bounds::LONGEST_TRANSACTION))
    }

    /// For how long a new filter settles: what it has passes, what it lacks is unknown, and nothing is refused. While a
    /// version of the application is rolled out, processes may still run that create records without inserting them here.
    /// A filter is new when Redis has no metadata of it and no process knows better, or when no process has looked at them
    /// for a minute. Settling ends with the first filter whose rebuild began after this time, or with
    /// [`enforce_everywhere`](BloomGuard::enforce_everywhere). See the guide's page [`fleet`](crate::guide::fleet).
    ///
    /// Zero is for applications whose processes all insert already, and for tests. The process that meets the new filter
    /// first decides. Without Redis there is nothing to settle.
    ///
    /// Defaults to 30 minutes: 15 for a roll-out, 15 for the longest transaction; to 7 days at most.
    pub fn settle(mut self, time: Duration) -> Self {
        self.settings.settle = time;
        self.judge("settle", settings::duration("settle", time, &bounds::SETTLE))
    }

    /// The key of the digests, which makes false positives impossible to forge. All processes that
    /// share a filter must have the same. To change it, give the filter another name: the guide's page
    /// [`fleet`](crate::guide::fleet) has the steps.
    ///
    /// Defaults to a random one: drawn once per filter and kept in Redis with it, or drawn anew by
    /// every process without Redis.
    pub fn secret_key(mut self, key: SecretKey) -> Self {
        self.settings.secret_key = Some(key);
        self
    }

    /// Builds the guard. Waits for nothing: Redis may be down, and the database too. What runs in the
    /// background starts now if there is a Tokio runtime, or else with the first request, check or
    /// insert in one.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with every setting that cannot be accepted, its value and its limits.
    pub fn build(self) -> Result<BloomGuard, ConfigError> {
        let this = self.accessed();
        let Self { settings, redis, foreign, old, source, extractor, options, policy, .. } = this;
        let (problems, is_migrating) = (this.problems, this.is_migrating);
        let mut problems: Vec<_> = problems.into_iter().map(|(_, problem)| problem).collect();
        let is_own = foreign.is_none() || is_migrating;
        problems.extend(wrong_with_shards(&settings, redis.as_ref(), is_own));
        let has_schedule = source.as_ref().is_some_and(|(schedule, _)| !schedule.is_manual());
        if has_schedule && foreign.is_some() && !is_migrating {
            problems.push(SettingError::ForeignSchedule);
        }
        // Values that are out of bounds make no store.
        let made =
            || store(&settings, redis.as_ref(), foreign.as_ref(), old.as_ref(), is_migrating);
        let (store, foreign) = match problems.is_empty().then(made) {
            Some(Ok(made)) => made,
            problem => {
                problems.extend(problem.and_then(Result::err));
                return Err(ConfigError::new(problems));
            }
        };
        if source.is_none() && foreign.is_none() {
            tell_that_nobody_builds(&settings.name, redis.as_ref());
        }
        let metrics = Arc::new(Metrics::new(&settings.name));
        let nulls = null_limits(&settings, source.as_ref().map(|(schedule, _)| schedule));
        let policy = policy.with(&settings);
        let guard = Guard::new(Arc::clone(&store), Arc::clone(&metrics), &policy, nulls);
        let foreign = foreign.map(|foreign| ForeignHandle::new(foreign, Arc::clone(&extractor)));
        let rebuilder = Rebuilder::new(store, Arc::clone(&extractor), source, &settings, metrics);
        let audits = policy.audits;
        let shared = Shared::new(guard, rebuilder, extractor, options, audits, foreign);
        let shared = Arc::new(shared);
        if let Some(redis) = &redis {
            registry::note(&shared, redis);
        }
        shared.start();
        Ok(BloomGuard::new(shared))
    }

    /// Sizes the filter, now that its capacity or the number of its shards is another.
    pub(crate) fn size(mut self) -> Self {
        let (ids, rate) = self.capacity;
        let sizing = Sizing::sharded(ids, rate, self.shards);
        self.settings.sizing = sizing.unwrap_or(self.settings.sizing);
        self.judge("capacity", sizing.map(drop).map_err(SettingError::from))
    }

    /// Notes what is wrong with a setting, or that nothing is any more.
    fn judge(mut self, setting: &'static str, judged: Result<(), SettingError>) -> Self {
        self.problems.retain(|(name, _)| *name != setting);
        self.problems.extend(judged.err().map(|problem| (setting, problem)));
        self
    }
}

impl Policy {
    fn with(self, settings: &Settings) -> Self {
        let found = settings.sizing.capacity().min(settings::MOST_FOUND);
        Self { found, null_ttl: settings.null_ttl, ..self }
    }
}

/// Returns why the filter cannot be in shards, if it is to be.
fn wrong_with_shards(
    settings: &Settings,
    redis: Option<&Endpoint>,
    is_own: bool,
) -> Vec<SettingError> {
    let mut wrong = Vec::new();
    if settings.sizing.shards() > 1 {
        let without_key = settings.secret_key.is_none();
        wrong.extend(without_key.then_some(SettingError::ShardsWithoutKey));
        let is_here = is_own && redis.is_some();
        wrong.extend((!is_here).then_some(SettingError::ShardsElsewhere));
    }
    wrong
}

fn null_limits(settings: &Settings, schedule: Option<&Schedule>) -> NullLimits {
    let removed_ttl = settings.removed_ttl.or_else(|| schedule.and_then(Schedule::longest_gap));
    NullLimits {
        ttl: settings.null_ttl,
        removed_ttl: removed_ttl.unwrap_or(REMOVED_TTL),
        per_second: settings.nulls_per_second,
    }
}

/// A guard without a source lets everything pass until another process has built its filter.
fn tell_that_nobody_builds(filter: &str, redis: Option<&Endpoint>) {
    if redis.is_some() {
        tracing::info!(filter, "no source: another process has to build the filter");
    } else {
        tracing::warn!(
            filter,
            "no source and no redis: no filter will ever be built, and nothing be refused"
        );
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, redis, foreign, options, policy, problems, .. } = self;
        f.debug_struct("Builder")
            .field("settings", settings)
            .field("redis", redis)
            .field("foreign", foreign)
            .field("options", options)
            .field("policy", policy)
            .field("problems", problems)
            .finish_non_exhaustive()
    }
}
