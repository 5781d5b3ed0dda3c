//! `doctor`: whether a Redis can serve a guard, and what to do where it cannot.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bloom_guard::inspect::{Filter, InspectError, Said, Server, shards_of};
use bloom_guard::{Doubt, Sizing, StoreError};

use crate::findings::Findings;
use crate::outcome::{Ending, Failure, Outcome, say};
use crate::rights;
use crate::target;
use crate::words;

/// The longest that a check waits, by default.
const DEADLINE: Duration = Duration::from_millis(25);
/// Round trips that are timed.
const ROUNDS: usize = 21;
/// How far the clocks may be apart before the ages that are told are wrong.
const APART: Duration = Duration::from_secs(2);

/// Says what is wrong with a Redis for a guard, and what mends it.
///
/// Rights are tried on keys of its own (`bg:{NAME}:doctor:…`, or `bg:{NAME#doctor}:…` of a filter in shards), which end within ten
/// seconds and are deleted; the filter's keys are only read. A user whose rights are for one filter needs its NAME, and --shards where
/// the filter is not there yet and is to be in shards.
///
/// Exit status 1: something is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where Redis is; `-` takes it from `BLOOM_GUARD_URL`.
    url: String,
    /// The name of a filter, which need not be there yet.
    name: Option<String>,
    /// In how many shards the filter is; found out if there is only one of this name.
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
}

/// What INFO says.
struct Info(String);

impl Info {
    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let (url, mut findings) = (target::url(&arguments.url)?, Findings::default());
    examine(arguments, &url, &mut findings).await?;
    say(json, &findings.text(), &findings.value())?;
    Ok(Ending::wrong_if(findings.wrong_count() > 0))
}

async fn examine(arguments: &Arguments, url: &str, findings: &mut Findings) -> Result<(), Failure> {
    let name = arguments.name.as_deref().unwrap_or("doctor");
    let server = match Server::open(url, &format!("bg:{{{name}}}:meta")).await {
        Ok(server) => server,
        Err(InspectError::Store(error)) if !is_away(&error) => {
            of_connection(&error, user(url), findings);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    findings.sound("connection: Redis answers");
    let Some(info) = info(&server, user(url), findings).await? else { return Ok(()) };
    if !of_server(&server, &info, url, findings).await {
        return Ok(());
    }
    of_memory(&info, findings);
    of_safety(&info, findings);
    let found = match &arguments.name {
        Some(name) => shards_of(url, name, arguments.shards).await,
        None => Ok(Vec::new()),
    };
    let shards = target::only(found.as_deref().unwrap_or_default(), name)?;
    let has_rights = of_rights(url, name, shards.or(arguments.shards), findings).await?;
    of_time(&server, findings).await?;
    if arguments.name.is_none() {
        return Ok(());
    }
    let filter = match (found, shards) {
        (Err(error), _) => Err(error),
        (Ok(_), None) => Ok(None),
        (Ok(_), Some(shards)) => {
            let key = target::secret_key()?;
            Filter::read(url, name, shards, key.as_ref()).await.map(Some)
        }
    };
    of_filter(filter, (name, user(url)), has_rights, &info, findings)
}

/// Tries the rights on the keys of a filter, of all its shards; returns whether the user has all.
async fn of_rights(
    url: &str,
    name: &str,
    shards: Option<u32>,
    findings: &mut Findings,
) -> Result<bool, Failure> {
    let (prefix, pattern) = match shards {
        None | Some(1) => (format!("bg:{{{name}}}:doctor:"), format!("bg:{{{name}}}:*")),
        // No shard's own key: only a pattern that is for all allows it.
        Some(_) => (format!("bg:{{{name}#doctor}}:"), format!("bg:{{{name}#*")),
    };
    let server = Server::open(url, &prefix).await?;
    Ok(rights::probe(&server, (&prefix, &pattern), user(url), findings).await)
}

/// Whether nothing answers at all.
fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Timeout { .. } | StoreError::Disconnected { doubt: Doubt::Disconnected, .. }
    )
}

fn of_connection(error: &StoreError, user: &str, findings: &mut Findings) {
    let lacks_select = error.to_string().contains("'select'");
    if lacks_select {
        findings.wrong(
            "rights: this user may not choose another database than 0",
            format!("ACL SETUSER {user} +select, or a URL without a database"),
        );
    } else {
        findings.refused(error);
    }
}

/// Asks for the sections that are needed; nothing where that may not be asked.
async fn info(
    server: &Server,
    user: &str,
    findings: &mut Findings,
) -> Result<Option<Info>, Failure> {
    let mut all = String::new();
    for section in ["server", "replication", "memory", "persistence", "clients"] {
        match server.ask(&["INFO", section]).await {
            Ok(said) => all += &said.text(),
            Err(error) if is_away(&error) => return Err(error.into()),
            Err(error) => {
                of_info(&error, user, findings);
                return Ok(None);
            }
        }
    }
    Ok(Some(Info(all)))
}

fn of_info(error: &StoreError, user: &str, findings: &mut Findings) {
    let text = error.to_string();
    if text.contains("NOAUTH") {
        findings.wrong(
            "password: Redis wants one, and the URL has none",
            "Put it into the URL: redis://:PASSWORD@HOST:PORT or redis://USER:PASSWORD@HOST:PORT",
        );
    } else if text.contains("NOPERM") {
        findings.wrong(
            "rights: this user may not run info, and nothing can be found out without it",
            format!(
                "ACL SETUSER {user} +info, and the rest of the guide's list: see the page redis"
            ),
        );
    } else if text.contains("unknown command") {
        findings.wrong(
            "commands: Redis does not know INFO, and nothing can be found out without it",
            "Take its rename-command out of redis.conf, or have the proxy let it pass",
        );
    } else {
        findings.refused(error);
    }
}

/// The host and port of a URL, for another URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

/// The user of a URL.
fn user(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    match user.split(':').next() {
        None | Some("") => "default",
        Some(user) => user,
    }
}

/// Says which server it is; returns whether a guard can use it at all.
async fn of_server(server: &Server, info: &Info, url: &str, findings: &mut Findings) -> bool {
    let version = info.field("valkey_version").or(info.field("redis_version")).unwrap_or("?");
    let mode = info.field("redis_mode").or(info.field("server_mode")).unwrap_or("standalone");
    match mode {
        "sentinel" => of_sentinel(server, url, findings).await,
        "cluster" if !url.contains("+cluster://") => findings.wrong(
            "server: it is a node of a cluster, and the URL names one server",
            format!("Name the cluster: redis+cluster://{},…", host(url)),
        ),
        _ if is_old(info.field("redis_version").unwrap_or("0")) => findings.wrong(
            format!("server: version {version} is too old"),
            "Use Redis 6.2 or later, or Valkey.",
        ),
        _ if info.field("role") != Some("master") => of_replica(info, findings),
        _ => {
            findings.sound(format!("server: version {version}, {mode}, a primary"));
            return true;
        }
    }
    false
}

async fn of_sentinel(server: &Server, url: &str, findings: &mut Findings) {
    let masters = server.ask(&["SENTINEL", "MASTERS"]).await;
    let name = masters.ok().and_then(|said| Some(said.list().first()?.list().get(1)?.text()));
    let name = name.unwrap_or_else(|| "NAME".to_owned());
    findings.wrong(
        "server: it is a Sentinel, and holds no keys",
        format!("Name all Sentinels in a URL: redis+sentinel://{},…/{name}", host(url)),
    );
}

fn of_replica(info: &Info, findings: &mut Findings) {
    let primary = info.field("master_host").zip(info.field("master_port"));
    let primary = primary
        .map_or_else(String::new, |(host, port)| format!(": redis://{host}:{port}, as it says"));
    findings.wrong(
        "server: it is a replica",
        format!(
            "Have the URL lead to the primary{primary}; or name the Sentinels, which follow it."
        ),
    );
}

/// Whether a version lacks what a guard needs.
fn is_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (6, 2)
}

/// What may be evicted, and whether there is room.
fn of_memory(info: &Info, findings: &mut Findings) {
    let policy = info.field("maxmemory_policy").unwrap_or("noeviction");
    let (limit, used) =
        (info.number("maxmemory").unwrap_or(0), info.number("used_memory").unwrap_or(0));
    if limit == 0 {
        return findings.sound("memory: no maxmemory, so nothing is evicted");
    }
    match policy {
        "noeviction" => findings.sound("memory: maxmemory-policy noeviction"),
        policy if policy.starts_with("allkeys-") => findings.wrong(
            format!("memory: maxmemory-policy {policy} may evict any key, so a guard refuses nothing"),
            "First give it room (maxmemory), then CONFIG SET maxmemory-policy noeviction (and in redis.conf); or accept_eviction(true)",
        ),
        policy => findings.note(
            format!("memory: maxmemory-policy {policy} may evict nulls and the rebuild's lease: nulls end early"),
            "",
        ),
    }
    of_free_memory(limit, used, findings);
}

fn of_free_memory(limit: u64, used: u64, findings: &mut Findings) {
    let default = Sizing::new(1_000_000, 0.001).map_or(0, |sizing| 2 * sizing.bytes());
    let free = limit.saturating_sub(used);
    if free < default {
        findings.wrong(
            format!(
                "memory: {} of {} are used; two filters of the default capacity take {}",
                words::bytes(used),
                words::bytes(limit),
                words::bytes(default)
            ),
            "Raise maxmemory: `bloom-guard plan` says what a filter takes.",
        );
    }
}

/// What becomes of data and writes when something fails.
fn of_safety(info: &Info, findings: &mut Findings) {
    if info.field("loading") == Some("1") {
        findings.wrong("data: Redis is loading them", "Wait until it has.");
    }
    let failed = ["rdb_last_bgsave_status", "aof_last_write_status"];
    if failed.iter().any(|field| info.field(field) == Some("err")) {
        // Where that ends writes, the rights that are tried say so.
        findings.note("data: Redis could not write to its disk", Doubt::Disk.advice());
    }
    if info.field("aof_enabled") == Some("0") {
        findings.note("data: not every write is kept on disk. None needs to be: a restart has the filter rebuilt", "");
    } else {
        findings.sound(
            "data: an append-only file is kept; the filter is rebuilt after a restart all the same",
        );
    }
    of_replicas(info, findings);
}

fn of_replicas(info: &Info, findings: &mut Findings) {
    let replicas = info.number("connected_slaves").unwrap_or(0);
    match info.field("min_slaves_good_slaves") {
        Some(good) => findings.sound(format!(
            "replicas: {replicas}, of which {good} keep up; without enough of them Redis takes no writes"
        )),
        None if replicas > 0 => findings.wrong(
            format!(
                "replicas: {replicas}, and writes need none: in a failover two primaries may take writes, and existing ids be refused"
            ),
            format!(
                "CONFIG SET min-replicas-to-write {} and min-replicas-max-lag 1, on every server",
                replicas.div_ceil(2)
            ),
        ),
        None => findings.sound("replicas: none, so there is no failover"),
    }
}

async fn of_time(server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        match server.ask(&["TIME"]).await {
            Ok(said) => rounds.push((begun.elapsed(), apart(&said))),
            Err(error) if is_away(&error) => return Err(error.into()),
            // It was told with the rights.
            Err(_) => return Ok(()),
        }
    }
    rounds.sort();
    // The quickest says best how far the clocks are apart.
    let (apart, middle, longest) = (rounds[0].1, rounds[ROUNDS / 2].0, rounds[ROUNDS - 1].0);
    let text = format!("round trips: {:.1} ms, the longest {:.1} ms", ms(middle), ms(longest));
    if middle > DEADLINE {
        findings.wrong(text, "A check waits 25 ms: move Redis nearer, or raise check_deadline.");
    } else if longest > DEADLINE {
        findings.note(text, "Some checks will be unknown: a check waits 25 ms.");
    } else {
        findings.sound(text);
    }
    if apart > APART {
        findings.note(
            format!("clock: Redis's and this machine's are {} apart", words::span(apart)),
            "A guard goes by Redis's; only ages that it tells are wrong. Set both by NTP: a jump ends all trust.",
        );
    } else {
        findings.sound("clock: as this machine's");
    }
    Ok(())
}

/// How far a clock that was read now is from this machine's.
fn apart(said: &Said) -> Duration {
    let number =
        |at: usize| said.list().get(at).and_then(|part| part.text().parse().ok()).unwrap_or(0);
    let theirs = Duration::from_secs(number(0)) + Duration::from_micros(number(1));
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().abs_diff(theirs)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Whether the filter is to be trusted, and the next one has room beside it.
fn of_filter(
    filter: Result<Option<Filter>, InspectError>,
    (name, user): (&str, &str),
    has_rights: bool,
    info: &Info,
    findings: &mut Findings,
) -> Result<(), Failure> {
    match filter {
        Ok(Some(filter)) => of_room(&filter, info, findings),
        Ok(None) => findings.note(
            format!("filter: there is none of the name {name:?} yet"),
            "The first guard makes it.",
        ),
        Err(InspectError::Store(StoreError::Refused { doubt: Doubt::Denied, .. })) => {
            // Else it was told with the rights.
            if has_rights {
                findings.unseen_in_shards(name, user);
            }
        }
        Err(InspectError::Store(error)) => findings.refused(&error),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn of_room(filter: &Filter, info: &Info, findings: &mut Findings) {
    let mut largest = 0;
    for shard in &filter.shards {
        match shard.numbers() {
            Ok(numbers) => largest = largest.max(numbers.4),
            Err(doubt) => {
                findings.wrong(format!("filter: {doubt}"), doubt.advice());
                break;
            }
        }
    }
    if largest > 0 {
        let key = if filter.has_key() { " and this secret key" } else { "" };
        findings.sound(format!("filter: live, of this Redis process{key}"));
    }
    let (limit, used) =
        (info.number("maxmemory").unwrap_or(0), info.number("used_memory").unwrap_or(0));
    let needed = used + largest;
    if limit > 0 && needed > limit {
        findings.wrong(
            format!(
                "room: a rebuild needs {} beside what is there, {} in all, and maxmemory is {}",
                words::bytes(largest),
                words::bytes(needed),
                words::bytes(limit)
            ),
            format!(
                "CONFIG SET maxmemory {} at the least (and in redis.conf)",
                needed + needed / 10
            ),
        );
    } else if largest > 0 {
        findings.sound(format!("room: for the {} of a rebuild", words::bytes(largest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_url_are_found_for_the_url_to_use() {
        assert_eq!(host("redis://guard:p%40ss@db-1:7000/3?x=y"), "db-1:7000");
        assert_eq!(host("rediss+cluster://a:1,b:2"), "a:1,b:2");
        assert_eq!(user("redis://guard:password@db"), "guard");
        assert_eq!(user("redis://:password@db"), "default");
        assert_eq!(user("redis://db"), "default");
    }

    #[test]
    fn what_is_older_than_6_2_is_too_old() {
        assert!(is_old("6.0.16") && is_old("5.0.14") && is_old("?"));
        assert!(!is_old("6.2.0") && !is_old("7.0.15") && !is_old("10.0.0"));
    }
}
