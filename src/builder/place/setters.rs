//! The setters of a filter that is not in this process alone.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::builder::Builder;
use crate::settings;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::map::endpoint::Endpoint;

/// The bounds of settling.
const SETTLE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(7 * 24 * 60 * 60);

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
        self.place.redis = endpoint.as_ref().ok().cloned();
        self.judge("redis", endpoint.map(drop))
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
        let judged = filter.judge();
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
        self.judge("settle", settings::duration("settle", time, &SETTLE))
    }
}
