//! Reads the URL of a Redis. [`Builder::redis`](crate::Builder::redis) lists the forms, and the parameters of each.
//!
//! What is not understood is an error: a database that is ignored is another service's filter. Errors quote nothing that may be a
//! part of a password.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;
use std::path::PathBuf;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use percent_encoding::percent_decode_str;

use super::endpoint::{Endpoint, Place, Server};
use crate::error::SettingError;

struct Parts<'a> {
    tls: bool,
    user: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

type Parameters<'a> = BTreeMap<&'a str, &'a str>;

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, SettingError> {
        let url = url.trim();
        if !cfg!(feature = "tls") && (url.starts_with("rediss") || url.starts_with("valkeys")) {
            let reason = "a rediss:// url needs the crate feature `tls`";
            return Err(SettingError::Combination { reason });
        }
        endpoint(url).map_err(|reason| {
            // Nothing of it is repeated, as it may hold a password.
            let hint = if url.contains(['@', '?', '#']) {
                " (in a password, / ? # @ and & are percent-encoded)"
            } else {
                ""
            };
            let reason = format!(
                "the url cannot be read: {reason}; expected is redis://[user][:password@]host[:port][/database], or one of the \
                 other forms that Builder::redis lists{hint}"
            );
            SettingError::Invalid { setting: "redis", reason }
        })
    }
}

fn endpoint(url: &str) -> Result<Endpoint, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (system, form) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = matches!(system, "rediss" | "valkeys");
    let is_known = tls || matches!(system, "redis" | "valkey");
    if rest.contains('#') {
        return Err("it has a fragment, of which nothing is known".to_owned());
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let parts = Parts { tls, user, hosts, path, query };
    match form {
        "" if is_known => parts.server(),
        "unix" if is_known && !tls => parts.socket(),
        "sentinel" if is_known => parts.sentinels(),
        "cluster" if is_known => parts.cluster(),
        _ => Err("it has another scheme, or none".to_owned()),
    }
}

impl<'a> Parts<'a> {
    fn server(&self) -> Result<Endpoint, String> {
        let database = database(self.path, &self.parameters(&["db"])?)?;
        let mut servers = self.servers(6_379)?;
        let server = servers.pop().filter(|_| servers.is_empty());
        let server =
            server.ok_or("it names several hosts, and is no +sentinel:// and no +cluster://")?;
        let info = info(server.addr(self.tls), self.account()?.set_db(database))?;
        Ok(Endpoint::new(Place::Address, info))
    }

    fn socket(&self) -> Result<Endpoint, String> {
        if !(self.user.is_empty() && self.hosts.is_empty()) || self.path.is_empty() {
            return Err("a socket has a path and no host, as in redis+unix:///path".to_owned());
        }
        let given = self.parameters(&["db", "user", "pass"])?;
        let account = account(given.get("user"), given.get("pass"))?;
        let path = PathBuf::from(format!("/{}", decoded(self.path)?));
        let account = account.set_db(database("", &given)?);
        Ok(Endpoint::new(Place::Address, info(ConnectionAddr::Unix(path), account)?))
    }

    fn sentinels(&self) -> Result<Endpoint, String> {
        let given = self.parameters(&["db", "sentinel_username", "sentinel_password"])?;
        let (name, number) = self.path.split_once('/').unwrap_or((self.path, ""));
        if name.is_empty() {
            let lacks = "it lacks the name by which the sentinels know the primary: /mymaster";
            return Err(lacks.to_owned());
        }
        let asked = account(given.get("sentinel_username"), given.get("sentinel_password"))?;
        if asked.username().is_some() && asked.password().is_none() {
            return Err("sentinel_username has no sentinel_password beside it".to_owned());
        }
        let sentinels = self.servers(26_379)?.into_iter();
        let sentinels = sentinels.map(|server| info(server.addr(self.tls), asked.clone()));
        let sentinels = sentinels.collect::<Result<_, _>>()?;
        let primary = info(
            Server::default().addr(self.tls),
            self.account()?.set_db(database(number, &given)?),
        )?;
        Ok(Endpoint::new(Place::Sentinels(sentinels, decoded(name)?.into()), primary))
    }

    fn cluster(&self) -> Result<Endpoint, String> {
        self.parameters(&[])?;
        if !self.path.is_empty() {
            return Err("a cluster has one database, so nothing follows its hosts".to_owned());
        }
        let primary = info(Server::default().addr(self.tls), self.account()?)?;
        Ok(Endpoint::new(Place::Cluster(self.servers(6_379)?), primary))
    }

    /// Returns the servers that the URL names. A Sentinel that is named twice would have two votes.
    fn servers(&self, port: u16) -> Result<Vec<Server>, String> {
        let mut servers = Vec::new();
        for host in self.hosts.split(',') {
            let server = server(host, port)?;
            if servers.contains(&server) {
                return Err(format!("it names {server} twice"));
            }
            servers.push(server);
        }
        Ok(servers)
    }

    /// Reads the parameters. Fails if one is not among these.
    fn parameters(&self, known: &[&str]) -> Result<Parameters<'a>, String> {
        let mut parameters = Parameters::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("it has a parameter without a value")?;
            if !known.contains(&name) {
                // Anything else may be the rest of a password.
                let is_plain = name.bytes().all(|b| b.is_ascii_alphabetic() || b"_-".contains(&b));
                let name = if is_plain { name } else { "?" };
                return Err(format!("it has the parameter {name:?}, and can have {known:?}"));
            }
            if value.is_empty() || parameters.insert(name, value).is_some() {
                return Err(format!("it has the parameter {name:?} twice, or without a value"));
            }
        }
        Ok(parameters)
    }

    fn account(&self) -> Result<RedisConnectionInfo, String> {
        let (user, password) = self.user.split_once(':').unwrap_or((self.user, ""));
        account(Some(&user), Some(&password))
    }
}

fn server(text: &str, default_port: u16) -> Result<Server, String> {
    if !text.starts_with('[') && text.matches(':').count() > 1 {
        return Err("an IPv6 address stands in brackets, as in [::1]:6379".to_owned());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port =
                port.parse::<NonZeroU16>().map_err(|_| "a port is no number from 1 to 65535")?;
            (host, port.get())
        }
        _ => (text, default_port),
    };
    let is_name = |host: &&str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().ok().map(|address| address.to_string()),
        None => Some(host).filter(is_name).map(str::to_owned),
    };
    Ok(Server { host: host.ok_or("it lacks a host, or one is no name or address")?, port })
}

fn database(path: &str, given: &Parameters<'_>) -> Result<i64, String> {
    let number = match (path, given.get("db").copied()) {
        ("", None) => return Ok(0),
        ("", Some(number)) | (number, None) => number,
        (_, Some(_)) => return Err("it names a database before `db`, too".to_owned()),
    };
    let number = number.parse::<u32>().ok().filter(|_| !number.starts_with('+'));
    number.map(i64::from).ok_or_else(|| "its database is no number".to_owned())
}

fn info(address: ConnectionAddr, account: RedisConnectionInfo) -> Result<ConnectionInfo, String> {
    let info = address.into_connection_info().map_err(|error| error.to_string())?;
    Ok(info.set_redis_settings(account))
}

fn account(user: Option<&&str>, password: Option<&&str>) -> Result<RedisConnectionInfo, String> {
    let mut account = RedisConnectionInfo::default();
    if let Some(user) = user.filter(|user| !user.is_empty()) {
        account = account.set_username(decoded(user)?);
    }
    if let Some(password) = password.filter(|password| !password.is_empty()) {
        account = account.set_password(decoded(password)?);
    }
    Ok(account)
}

fn decoded(part: &str) -> Result<String, String> {
    let text = percent_decode_str(part).decode_utf8();
    Ok(text.map_err(|_| "a part of it is no text, once percent-decoded")?.into_owned())
}
