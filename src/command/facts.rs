//! What a server tells of itself, what is wrong with that, and what mends it.

use serde::Serialize;

use super::target::Server;
use crate::error::StoreError;
use crate::store::link::process::{RedisProcess, field, may_evict};
use crate::store::link::reply::Reply;

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
    /// The address of the node that is looked at, where there are others.
    pub(super) node: String,
}

impl Findings {
    pub(super) fn wrong(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        self.add(WRONG, what, mend);
    }

    pub(super) fn add(
        &mut self,
        level: &'static str,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) {
        let (node, what) = (&self.node, what.into());
        let what = if node.is_empty() { what } else { format!("{node}: {what}") };
        let finding = Finding { level, what, mend: mend.into() };
        if !self.all.contains(&finding) {
            self.all.push(finding);
        }
    }

    /// Notes what Redis refused, with the library's own advice.
    pub(super) fn refused(&mut self, error: &StoreError) {
        self.wrong(error.to_string(), error.advice());
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
    RedisProcess::parse(info, server.is_of_cluster)?;
    let version =
        field(info, "valkey_version").or_else(|| field(info, "redis_version")).unwrap_or("?");
    findings.add("sound", format!("server: version {version}, a primary"), "");
    of_memory(info, findings);
    of_replicas(info, findings);
    if server.is_of_cluster {
        of_coverage(server, findings).await;
    }
    Ok(())
}

fn of_memory(info: &str, findings: &mut Findings) {
    let policy = field(info, "maxmemory_policy").unwrap_or("noeviction");
    if may_evict(info) {
        findings.wrong(
            format!("memory: maxmemory-policy {policy} may evict any key, so a guard refuses nothing"),
            "Give it room (maxmemory), then CONFIG SET maxmemory-policy noeviction (and in redis.conf); or accept_eviction(true)",
        );
    } else {
        findings.add("sound", "memory: the filter is not evicted", "");
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
        findings.add("sound", format!("replicas: {replicas}"), "");
    }
}

/// Whether the other nodes of a cluster answer while one is gone; nothing if this user may not ask.
async fn of_coverage(server: &Server, findings: &mut Findings) {
    const SETTING: &str = "cluster-require-full-coverage";
    let said = server.ask(&["CONFIG", "GET", SETTING]).await.and_then(Reply::fields::<2>);
    let Ok([_, value]) = said else { return };
    if value.text().is_ok_and(|value| value == "yes") {
        findings.add(
            "note",
            format!("cluster: {SETTING} yes: while any node is gone, nothing is refused"),
            format!("CONFIG SET {SETTING} no, on every node"),
        );
    }
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
