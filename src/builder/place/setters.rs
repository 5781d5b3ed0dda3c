//! The setters of a filter that is not in this process alone.

use std::sync::Arc;
use std::time::Duration;

use crate::builder::{Builder, HOUR, SECOND};
use crate::error::{BoxError, SettingError};
use crate::store::foreign::filter::ForeignFilter;
use crate::store::link::credentials::{Credentials, Provider};
#[cfg(feature = "tls")]
use crate::store::link::tls::TlsSettings;
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::keys;

/// Where the filter is, and which one it is: with the crate feature `redis`.
impl Builder {
    /// Keeps filter, recent inserts and nulls in the Redis at this URL, shared by all processes that use the
    /// same name. Redis 6.2 or later, or Valkey. Whether a server is there does not matter now.
    ///
    /// | URL | leads to | parameters |
    /// |---|---|---|
    /// | `redis://[user][:password@]host[:port][/database]` | a server | `db` |
    /// | `redis+unix:///path` | a server's socket | `db`, `user`, `pass` |
    /// | `redis+sentinel://[user][:password@]host[:port][,host[:port]…]/name[/database]` | the primary that a majority of these [Sentinels](crate::guide::redis#sentinel) knows by this name; user and password are the primary's, the parameters' the Sentinels' | `db`, `sentinel_username`, `sentinel_password` |
    /// | `redis+cluster://[user][:password@]host[:port][,host[:port]…]` | the node that serves the filter's slot in the [cluster](crate::guide::redis#cluster) of these nodes; it has one database | none |
    ///
    /// With `rediss` instead of `redis` it is TLS, to the Sentinels, too (with the crate feature `tls`). `valkey` and `valkeys` are the same.
    /// `db` is the database where the path names none. Anything else, such as `ssl=true` or a fragment, is an error that names it.
    ///
    /// In user, password and parameters, `/ ? # @ & %` are percent-encoded. TLS trusts the system's root certificates, unless `tls` says
    /// otherwise, and takes the cryptography that the application chose for rustls, or else `ring`.
    ///
    /// There is no default: a guard says this or [`in_process`](Self::in_process).
    pub fn redis(mut self, url: &str) -> Self {
        let endpoint = Endpoint::parse(url);
        self.place.servers = endpoint.iter().cloned().collect();
        self.judge("redis", endpoint.map(drop))
    }

    /// Spreads the filter's [`shards`](Self::shards) over the servers at these URLs, in turn: in place of [`redis`](Self::redis),
    /// for a filter or a flood that is too much for one server, where there is no cluster. Of a server that is away, the ids in its
    /// shards are unknown and cannot be inserted; no other is concerned. All processes must name the same servers, in any order;
    /// others are [another filter](crate::guide::fleet#moving-to-another-filter). Keep the servers' clocks together, as by NTP: the filter is as
    /// old as its oldest shard.
    ///
    /// Each URL leads to a server or to Sentinels; a cluster spreads shards by itself, and is an error here.
    pub fn redis_each(mut self, urls: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let servers = urls
            .into_iter()
            .map(|url| Endpoint::parse(url.as_ref()))
            .collect::<Result<Vec<_>, _>>();
        let judged = servers.and_then(|mut servers| {
            // So that their order makes no difference, nor that of a server's Sentinels.
            servers.sort_by_cached_key(|server| {
                let mut words: Vec<_> =
                    format!("{server:?}").split([' ', ',', '[', ']']).map(str::to_owned).collect();
                words.sort();
                words
            });
            let reason = match &servers[..] {
                [] => "redis_each names no server",
                all if all.iter().any(Endpoint::is_cluster) => {
                    "redis_each spreads shards over servers, and a cluster does so by itself: redis"
                }
                _ => {
                    self.place.servers = servers;
                    return Ok(());
                }
            };
            Err(SettingError::Combination { reason })
        });
        self.judge("redis", judged)
    }

    /// Stands in front of a filter that another system writes, in the Redis at [`redis`](Self::redis), instead of one of the
    /// guard's own: [`insert`](crate::BloomGuard::insert) writes to it as that system does. See the guide's page
    /// [`other_filters`](crate::guide::other_filters).
    ///
    /// Nothing is refused before an operator has stated that the filter is whole
    /// ([`trust_foreign`](crate::BloomGuard::trust_foreign)), nor after a sign that it is not. Only the other system builds it:
    /// a [`rebuild`](Self::rebuild) is an error.
    ///
    /// Defaults to a filter of the guard's own.
    pub fn foreign(mut self, mut filter: ForeignFilter) -> Self {
        let judged = filter.problem.take().map_or(Ok(()), Err);
        self.place.foreign = Some(filter);
        self.judge("foreign", judged)
    }

    /// For how long a new filter [settles](crate::guide::fleet): nothing is refused, as processes may still run that create
    /// records without inserting them here. Zero is for applications whose processes all insert already, and for tests. The
    /// process that meets the new filter first decides.
    ///
    /// Defaults to 30 minutes, 15 for a roll-out and 15 for the longest transaction; from 0 to 7 days.
    pub fn settle(mut self, time: Duration) -> Self {
        self.settings.settle = time;
        self.bound("settle", time, Duration::ZERO..=7 * 24 * HOUR)
    }

    /// Asks this for user and password whenever a connection to Redis is made: for passwords that are rotated, and tokens that
    /// [end](crate::access::Credentials::expires_in), before which it is asked again. Sentinels are told what the URL says. Without any,
    /// answers are unknown, and [`state`](crate::BloomGuard::state) says why: no secret may be in an error's words.
    ///
    /// Connections that are made within a second share an answer, also one that Redis refuses; there are three to a Redis. A provider
    /// that takes longer than five seconds has failed, and so has one that panics. It is tried again after half a second at the most, so
    /// one that asks a service keeps what it has got for a while.
    ///
    /// Defaults to what the URL says; one with a password is an error then.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use bloom_guard::access::Credentials;
    /// use bloom_guard::{BloomGuard, BoxError, PathPattern};
    ///
    /// # async fn token() -> Result<String, BoxError> { Ok("token".to_owned()) }
    /// let provider = || async {
    ///     let token = token().await?;
    ///     Ok::<_, BoxError>(Credentials::new(token).user("guard").expires_in(Duration::from_secs(900)))
    /// };
    /// let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}")?)
    ///     .redis("redis://127.0.0.1:6379")
    ///     .credentials(provider)
    ///     .build()?;
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn credentials<F, Asked, E>(mut self, provider: F) -> Self
    where
        F: Fn() -> Asked + Send + Sync + 'static,
        Asked: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.place.access.credentials = Some(Arc::new(Provider::new(provider)));
        self.judge("credentials", Ok(()))
    }

    /// Makes TLS connections with these settings: a certificate authority of one's own, a certificate to show. With `rediss://`,
    /// `rediss+sentinel://` (to the Sentinels, too) and `rediss+cluster://`; an error with others.
    ///
    /// Defaults to the system's root certificates, and none to show.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, settings: TlsSettings) -> Self {
        self.place.access.tls = Some(Arc::new(settings));
        self.judge("tls", Ok(()))
    }
}

/// Settings for tuning, with the crate feature `redis`. With [`in_process`](Builder::in_process) each is an error.
impl Builder {
    /// Cuts the filter into this many equal [shards](crate::guide::redis#shards), each a filter of its own: where one string
    /// of 512 MB does not hold it, or Redis takes too long to allocate it. Needs a [`secret_key`](Self::secret_key). All
    /// processes must have the same number; another one is [another filter](crate::guide::fleet#moving-to-another-filter).
    ///
    /// Defaults to 1; a power of two, up to 1,024.
    pub fn shards(mut self, shards: u32) -> Self {
        let judged = keys::judge_shards(shards);
        if judged.is_ok() {
            self.settings.sizing.shards = shards;
        }
        self.judge("shards", judged)
    }

    /// The longest that a check waits for Redis. Then the answer is [unknown](Self::on_unknown).
    ///
    /// Defaults to 25 milliseconds; from 1 millisecond to 10 seconds.
    pub fn check_deadline(mut self, deadline: Duration) -> Self {
        self.settings.check_deadline = deadline;
        self.bound("check_deadline", deadline, Duration::from_millis(1)..=10 * SECOND)
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
