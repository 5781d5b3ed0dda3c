//! Reads URLs that name several hosts.
//!
//! | URL | |
//! |---|---|
//! | `redis+sentinel://[user][:password@]host[:port][,host[:port]…]/name[/database][?sentinel_username=…&sentinel_password=…]` | Sentinels |
//! | `redis+cluster://[user][:password@]host[:port][,host[:port]…]` | nodes of a cluster |
//! | `rediss+…` | the same with TLS |

use std::collections::BTreeSet;
use std::sync::Arc;

use ::redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};
use percent_encoding::percent_decode_str;

use super::cluster::Cluster;
use super::listed::Listed;
use super::sentinel::Sentinels;
use super::server::Server;
use crate::store::link::access::Access;

/// What the hosts of a URL are, by how its scheme ends, and the port of one that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    Sentinels,
    Nodes,
}

/// The parts of a URL, as they stand there.
pub(super) struct Parts<'a> {
    pub(super) hosts_are: Hosts,
    scheme: &'a str,
    /// With its `@`.
    user: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

impl Hosts {
    const fn port(self) -> u16 {
        match self {
            Self::Sentinels => 26_379,
            Self::Nodes => 6_379,
        }
    }

    const fn one(self) -> &'static str {
        match self {
            Self::Sentinels => "sentinel",
            Self::Nodes => "node",
        }
    }
}

impl<'a> Parts<'a> {
    /// Returns the parts of a URL that names several hosts.
    pub(super) fn of(url: &'a str) -> Option<Self> {
        let (kind, rest) = url.split_once("://")?;
        let (scheme, hosts_are) = match kind.split_once('+')? {
            (scheme @ ("redis" | "rediss"), "sentinel") => (scheme, Hosts::Sentinels),
            (scheme @ ("redis" | "rediss"), "cluster") => (scheme, Hosts::Nodes),
            _ => return None,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let user = authority.rfind('@').map_or(0, |at| at + 1);
        let (user, hosts) = authority.split_at(user);
        Some(Self { hosts_are, scheme, user, hosts, path, query })
    }

    /// Reads a URL that names Sentinels, where that of one server is read by `server`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without quoting what may be a password.
    pub(super) fn sentinels(
        &self,
        server: impl Fn(&str) -> Result<ConnectionInfo, String>,
    ) -> Result<Sentinels, String> {
        let (name, database) = name_and_database(self.path)?;
        let credentials = credentials(self.query)?;
        let sentinels = self.hosts(&server)?.into_iter();
        let sentinels = sentinels.map(|info| info.set_redis_settings(credentials.clone()));
        let redis = self.redis(&server)?;
        let settings = redis.redis_settings().clone().set_db(database);
        Ok(Sentinels::new(sentinels.collect(), &name, redis.set_redis_settings(settings)))
    }

    /// The same of one that names nodes of a cluster.
    ///
    /// # Errors
    ///
    /// As [`sentinels`](Self::sentinels).
    pub(super) fn cluster(
        &self,
        server: impl Fn(&str) -> Result<ConnectionInfo, String>,
    ) -> Result<Cluster, String> {
        if !self.path.is_empty() || !self.query.is_empty() {
            let more = "something follows its hosts: a cluster has one database, and no parameters";
            return Err(more.to_owned());
        }
        let mut named = Vec::new();
        for info in self.hosts(&server)? {
            match info.addr() {
                ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                    named.push(Server { host: host.clone(), port: *port });
                }
                _ => return Err("a node is no host".to_owned()),
            }
        }
        let (redis, access) = (self.redis(&server)?, Access::default());
        Ok(Cluster {
            named,
            listed: Listed::default(),
            redis,
            access,
            dial: |node, like, by| Arc::new(node.address(like, by)),
        })
    }

    /// Returns how to connect to each host. One that is named twice would have two votes.
    fn hosts(
        &self,
        server: impl Fn(&str) -> Result<ConnectionInfo, String>,
    ) -> Result<Vec<ConnectionInfo>, String> {
        if [self.hosts, self.path, self.query].iter().any(|part| part.contains('#')) {
            return Err("it has a fragment, of which nothing is known".to_owned());
        }
        let (port, one) = (self.hosts_are.port(), self.hosts_are.one());
        let (mut seen, mut infos) = (BTreeSet::new(), Vec::new());
        for host in self.hosts.split(',') {
            if host.is_empty() {
                return Err(format!("it lacks a {one}'s host"));
            }
            let info = server(&format!("{}://{}", self.scheme, with_port(host, port)))?;
            if !seen.insert(info.addr().to_string()) {
                return Err(format!("it names the {one} {host} twice"));
            }
            infos.push(info);
        }
        Ok(infos)
    }

    /// Returns how to connect to a server that the hosts name.
    fn redis(
        &self,
        server: impl Fn(&str) -> Result<ConnectionInfo, String>,
    ) -> Result<ConnectionInfo, String> {
        server(&format!("{}://{}named", self.scheme, self.user))
    }
}

/// Returns a host with its port. What else is wrong with it is found by whoever reads it.
fn with_port(host: &str, port: u16) -> String {
    let has_port = host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
    if has_port { host.to_owned() } else { format!("{host}:{port}") }
}

fn name_and_database(path: &str) -> Result<(String, i64), String> {
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    let name = percent_decode_str(name).decode_utf8().map_err(|_| "the name is no text")?;
    if name.is_empty() {
        return Err(
            "it lacks the name by which the sentinels know the primary, as in /mymaster".to_owned()
        );
    }
    let database = match database {
        "" => 0,
        number => number
            .parse()
            .ok()
            .filter(|number| *number >= 0)
            .ok_or("behind its name stands what is no number of a database")?,
    };
    Ok((name.into_owned(), database))
}

/// Reads what the Sentinels want to know of whoever asks.
fn credentials(query: &str) -> Result<RedisConnectionInfo, String> {
    let mut settings = RedisConnectionInfo::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        settings = match &*name {
            "sentinel_username" => settings.set_username(value),
            "sentinel_password" => settings.set_password(value),
            _ => {
                return Err(
                    "it has a parameter other than sentinel_username and sentinel_password"
                        .to_owned(),
                );
            }
        };
    }
    if settings.username().is_some() && settings.password().is_none() {
        return Err("sentinel_username has no sentinel_password beside it".to_owned());
    }
    Ok(settings)
}
