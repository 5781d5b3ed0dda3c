//! What a server tells of itself, what is wrong with that, and what mends it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::server::Server;
use super::status::span;
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::link::process::{Eviction, RedisProcess, field};
use crate::store::link::reply::Reply;

/// How far the clocks may be apart before the ages that are told are wrong.
const APART: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    level: &'static str,
    what: String,
    mend: String,
}

const WRONG: &str = "wrong";

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) all: Vec<Finding>,
}

impl Findings {
    pub(super) fn sound(&mut self, what: impl Into<String>) {
        self.add("sound", what, "");
    }

    pub(super) fn note(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add("note", what, mend);
    }

    pub(super) fn wrong(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add(WRONG, what, mend);
    }

    fn add(&mut self, level: &'static str, what: impl Into<String>, mend: impl Into<String>) {
        let finding = Finding { level, what: what.into(), mend: mend.into() };
        if !self.all.contains(&finding) {
            self.all.push(finding);
        }
    }

    pub(super) fn refused(&mut self, error: &StoreError) {
        self.wrong(error.to_string(), error.advice());
    }

    pub(super) fn of_node(&mut self, address: &str, findings: Self) {
        for Finding { level, what, mend } in findings.all {
            let what = if address.is_empty() { what } else { format!("{address}: {what}") };
            self.add(level, what, mend);
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.all.iter().any(|finding| finding.level == WRONG)
    }

    pub(super) fn text(&self) -> String {
        let line = |Finding { level, what, mend }: &Finding| match &**mend {
            "" => format!("{level}: {what}\n"),
            mend => format!("{level}: {what}\n  {mend}\n"),
        };
        let lines: String = self.all.iter().map(line).collect();
        lines + if self.is_wrong() { "Something is wrong." } else { "Redis is sound." }
    }
}

pub(super) async fn judge(
    server: &Server,
    info: &str,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    RedisProcess::parse(info, server.is_of_cluster())?;
    let version =
        field(info, "valkey_version").or_else(|| field(info, "redis_version")).unwrap_or("?");
    findings.sound(format!("server: version {version}, a primary"));
    of_memory(info, findings);
    of_disk(info, findings);
    of_replicas(info, findings);
    if server.is_of_cluster() {
        of_coverage(server, findings).await;
    }
    Ok(())
}

fn of_memory(info: &str, findings: &mut Findings) {
    let policy = field(info, "maxmemory_policy").unwrap_or("noeviction");
    if Eviction::parse(info) == Eviction::Takes {
        findings.wrong(
            format!("memory: maxmemory-policy {policy} may evict any key, so a guard refuses nothing"),
            "Give it room (maxmemory), then CONFIG SET maxmemory-policy noeviction (and in redis.conf); or accept_eviction(true)",
        );
    } else if policy.starts_with("volatile-") && field(info, "maxmemory") != Some("0") {
        let what =
            format!("memory: maxmemory-policy {policy} may evict nulls and a rebuild's lease");
        findings.note(what, "");
    } else {
        findings.sound("memory: nothing is evicted");
    }
}

fn of_disk(info: &str, findings: &mut Findings) {
    let failed = ["rdb_last_bgsave_status", "aof_last_write_status"];
    if failed.iter().any(|name| field(info, name) == Some("err")) {
        // Where that ends writes, the rights that are tried say so.
        findings.note("disk: Redis could not write to it", Refusal::DISK.advice());
    }
}

fn of_replicas(info: &str, findings: &mut Findings) {
    let replicas: u64 = field(info, "connected_slaves").and_then(|of| of.parse().ok()).unwrap_or(0);
    if replicas > 0 && field(info, "min_slaves_good_slaves").is_none() {
        findings.wrong(
            "replicas: writes need none: in a failover two primaries may take writes, and existing ids be refused",
            format!(
                "CONFIG SET min-replicas-to-write {} and min-replicas-max-lag 1, on every server. Have two replicas at least: a \
                 new primary that has none takes no writes",
                replicas.div_ceil(2)
            ),
        );
    } else {
        findings.sound(format!("replicas: {replicas}"));
    }
}

/// Whether the other nodes of a cluster answer while one is gone; nothing if this user may not ask.
async fn of_coverage(server: &Server, findings: &mut Findings) {
    const SETTING: &str = "cluster-require-full-coverage";
    let said = server.ask(&["CONFIG", "GET", SETTING]).await.and_then(Reply::fields::<2>);
    let Ok([_, value]) = said else { return };
    if value.text().is_ok_and(|value| value == "yes") {
        findings.note(
            format!("cluster: {SETTING} yes: while any node is gone, nothing is refused"),
            format!("CONFIG SET {SETTING} no, on every node"),
        );
    }
}

/// Whether the ages are right that a guard tells.
pub(super) async fn of_clock(server: &Server, findings: &mut Findings) -> Result<(), StoreError> {
    let time = match server.ask(&["TIME"]).await {
        // It was told with the rights.
        Err(StoreError::Refused { .. }) => return Ok(()),
        time => time?.fields::<2>()?,
    };
    let theirs = Duration::from_secs(time[0].count()?) + Duration::from_micros(time[1].count()?);
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if ours.abs_diff(theirs) > APART {
        let what =
            format!("clock: Redis's and this machine's are {} apart", span(ours.abs_diff(theirs)));
        findings.note(what, "Set both by NTP: a guard goes by Redis's, and a jump ends all trust.");
    }
    Ok(())
}

/// Notes why Redis refused a command, and which right is missing.
pub(super) fn of_refusal(error: &StoreError, user: &str, findings: &mut Findings) {
    let text = error.to_string();
    let denied = text.split_once("run the '").and_then(|(_, rest)| rest.split_once('\''));
    if let Some((command, _)) = denied {
        let mend = format!(
            "ACL SETUSER {user} +{command}, and the rest of the guide's list: see the page redis"
        );
        findings.wrong(format!("rights: this user may not run {command}"), mend);
    } else {
        findings.refused(error);
    }
}
