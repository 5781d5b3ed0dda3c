//! Reads a URL that names Sentinels:
//! `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/name[/database][?sentinel_username=…&sentinel_password=…]`,
//! or `rediss+sentinel://`, with TLS to the Sentinels and to the primary.

use std::collections::BTreeSet;

use ::redis::{ConnectionInfo, RedisConnectionInfo};
use percent_encoding::percent_decode_str;

use super::sentinel::Sentinels;

/// What ends a scheme's name where Sentinels are named.
const SCHEME: &str = "+sentinel://";
/// The port of a Sentinel whose URL has none.
const PORT: u16 = 26_379;

/// The parts of a URL, as they stand there.
struct Parts<'a> {
    scheme: &'a str,
    /// With its `@`.
    user: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

/// Whether a URL names Sentinels.
pub(super) fn names_sentinels(url: &str) -> bool {
    Parts::of(url).is_some()
}

/// Reads a URL that names Sentinels, where one of a server is read by `server`.
///
/// # Errors
///
/// What is wrong with it, without quoting what may be a password.
pub(super) fn parse(
    url: &str,
    server: impl Fn(&str) -> Result<ConnectionInfo, String>,
) -> Result<Sentinels, String> {
    let Parts { scheme, user, hosts, path, query } =
        Parts::of(url).ok_or("it has another scheme")?;
    let (name, database) = name_and_database(path)?;
    let credentials = credentials(query)?;
    let mut seen = BTreeSet::new();
    let mut sentinels = Vec::new();
    for host in hosts.split(',') {
        if host.is_empty() {
            return Err("it lacks a sentinel's host".to_owned());
        }
        let info = server(&format!("{scheme}://{}", with_port(host)))?;
        if !seen.insert(info.addr().to_string()) {
            return Err(format!(
                "it names the sentinel {host} twice, whose word would count twice"
            ));
        }
        sentinels.push(info.set_redis_settings(credentials.clone()));
    }
    // Where the primary is, the Sentinels say.
    let redis = server(&format!("{scheme}://{user}primary"))?;
    let settings = redis.redis_settings().clone().set_db(database);
    Ok(Sentinels::new(sentinels, &name, redis.set_redis_settings(settings)))
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once(SCHEME)?;
        if !["redis", "rediss"].contains(&scheme) {
            return None;
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let user = authority.rfind('@').map_or(0, |at| at + 1);
        let (user, hosts) = authority.split_at(user);
        Some(Self { scheme, user, hosts, path, query })
    }
}

/// Returns a host with its port. What else is wrong with it is found by whoever reads it.
fn with_port(host: &str) -> String {
    let has_port = host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

fn name_and_database(path: &str) -> Result<(String, i64), String> {
    if path.contains('#') {
        return Err("it has a fragment, of which nothing is known".to_owned());
    }
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
            .ok_or_else(|| format!("{number:?} is no number of a database"))?,
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
            other => {
                return Err(format!(
                    "{other:?} is none of its parameters, sentinel_username and sentinel_password"
                ));
            }
        };
    }
    if settings.username().is_some() && settings.password().is_none() {
        return Err("sentinel_username has no sentinel_password beside it".to_owned());
    }
    Ok(settings)
}
