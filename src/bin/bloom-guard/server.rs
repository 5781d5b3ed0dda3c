//! What is wrong with one server, and what mends it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bloom_guard::inspect::{Said, Server};
use bloom_guard::{Doubt, Sizing, StoreError};

use crate::findings::Findings;
use crate::words;

/// The longest that a check waits, by default.
const DEADLINE: Duration = Duration::from_millis(25);
/// Round trips that are timed.
const ROUNDS: usize = 21;
/// How far the clocks may be apart before the ages that are told are wrong.
const APART: Duration = Duration::from_secs(2);

/// What INFO says.
pub(crate) struct Info(String);

impl Info {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}

/// Finds out which server it is; nothing where a guard cannot use it at all.
pub(crate) async fn identify(
    server: &Server,
    url: &str,
    findings: &mut Findings,
) -> Result<Option<Info>, StoreError> {
    findings.sound("connection: Redis answers");
    let Some(info) = info(server, user(url), findings).await? else { return Ok(None) };
    Ok(of_server(server, &info, url, findings).await.then_some(info))
}

/// Judges what it tells of itself.
pub(crate) async fn judge(server: &Server, info: &Info, findings: &mut Findings) {
    of_memory(info, findings);
    of_safety(info, findings);
    if info.field("cluster_enabled") == Some("1") {
        of_coverage(server, findings).await;
    }
}

/// Whether nothing answers at all.
pub(crate) fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Timeout { .. } | StoreError::Disconnected { doubt: Doubt::Disconnected, .. }
    )
}

/// Asks for the sections that are needed; nothing where that may not be asked.
async fn info(
    server: &Server,
    user: &str,
    findings: &mut Findings,
) -> Result<Option<Info>, StoreError> {
    let mut all = String::new();
    for section in ["server", "replication", "memory", "persistence", "clients", "cluster"] {
        match server.ask(&["INFO", section]).await {
            Ok(said) => all += &said.text(),
            Err(error) if is_away(&error) => return Err(error),
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
pub(crate) fn user(url: &str) -> &str {
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
                "CONFIG SET min-replicas-to-write {} and min-replicas-max-lag 1, on every server. Have two replicas at least: a \
                 new primary that has none takes no writes",
                replicas.div_ceil(2)
            ),
        ),
        None => findings.sound("replicas: none are connected, so there is no failover"),
    }
}

/// Whether the nodes of a cluster go on where one is gone, as far as the user may know.
async fn of_coverage(server: &Server, findings: &mut Findings) {
    const SETTING: &str = "cluster-require-full-coverage";
    let Ok(said) = server.ask(&["CONFIG", "GET", SETTING]).await else { return };
    if said.list().get(1).is_some_and(|value| value.text() == "yes") {
        findings.note(
            format!("cluster: {SETTING} yes: while any node is gone, nothing is refused"),
            format!(
                "CONFIG SET {SETTING} no, on every node: only what is on that node is unknown then"
            ),
        );
    }
}

/// How quick servers are, and how right their clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    middle: Duration,
    longest: Duration,
    apart: Duration,
}

impl Times {
    /// Measures one; nothing where it may not be asked for the time, which was told with the rights.
    pub(crate) async fn of(server: &Server) -> Result<Option<Self>, StoreError> {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            match server.ask(&["TIME"]).await {
                Ok(said) => rounds.push((begun.elapsed(), apart(&said))),
                Err(error) if is_away(&error) => return Err(error),
                Err(_) => return Ok(None),
            }
        }
        rounds.sort();
        // The quickest says best how far the clocks are apart.
        let (apart, middle, longest) = (rounds[0].1, rounds[ROUNDS / 2].0, rounds[ROUNDS - 1].0);
        Ok(Some(Self { middle, longest, apart }))
    }

    /// Returns the worst of both.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        Self {
            middle: self.middle.max(other.middle),
            longest: self.longest.max(other.longest),
            apart: self.apart.max(other.apart),
        }
    }

    pub(crate) fn judge(&self, findings: &mut Findings) {
        let Self { middle, longest, apart } = *self;
        let text = format!("round trips: {:.1} ms, the longest {:.1} ms", ms(middle), ms(longest));
        if middle > DEADLINE {
            let mend = "A check waits 25 ms: move Redis nearer, or raise check_deadline.";
            findings.wrong(text, mend);
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
    }
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
