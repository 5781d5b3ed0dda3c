//! `doctor`: what is wrong with a Redis for a guard, and what mends it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::outcome::{Failure, Outcome, say};
use super::rights;
use super::target::{Server, Target};
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::link::process::{RedisProcess, field, may_evict};
use crate::store::link::transport::meaning;
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::keys::Keys;
use crate::verdict::Doubt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    mend: String,
}

#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
    /// The address of the node that is looked at, where there are others.
    node: String,
}

impl Findings {
    fn add(&mut self, what: impl Into<String>, mend: impl Into<String>) {
        let (node, what) = (&self.node, what.into());
        let what = if node.is_empty() { what } else { format!("{node}: {what}") };
        let finding = Finding { what, mend: mend.into() };
        if !self.all.contains(&finding) {
            self.all.push(finding);
        }
    }

    /// Notes what Redis refused, with the library's own advice.
    fn refused(&mut self, error: &StoreError) {
        self.add(error.to_string(), error.advice());
    }
}

pub(super) async fn run(target: &Target, json: bool) -> Outcome {
    let mut findings = Findings::default();
    let endpoint = target.endpoint()?;
    let nodes = nodes(target, &endpoint).await?;
    for (address, keys) in &nodes {
        findings.node.clone_from(address);
        match of_node(&endpoint, keys, &mut findings).await {
            // Where nothing answers at all, there is nothing to judge.
            Err(error)
                if nodes.len() == 1
                    && matches!(error.doubt(), Doubt::Disconnected | Doubt::Timeout) =>
            {
                return Err(error.into());
            }
            judged => judged.unwrap_or_else(|error| findings.refused(&error)),
        }
    }
    findings.node.clear();
    of_filter(target, &mut findings).await?;
    let all = &findings.all;
    let wrong = |Finding { what, mend }: &Finding| format!("wrong: {what}\n  {mend}");
    let mut text: String = all.iter().map(|of| wrong(of).trim_end().to_owned() + "\n").collect();
    text += if all.is_empty() { "Redis is sound." } else { "Something is wrong." };
    say(json, &text, &json!({ "sound": all.is_empty(), "findings": all }))?;
    Ok(!all.is_empty())
}

/// Returns, for each node of a cluster, the keys of one shard on it; for a single server no address.
async fn nodes(target: &Target, endpoint: &Endpoint) -> Result<BTreeMap<String, Keys>, Failure> {
    let keys: Vec<Keys> = target.keys().collect();
    let Some(slots) = endpoint.slots(keys.iter().map(|keys| keys.meta.as_str().into()).collect())
    else {
        return Ok(keys.into_iter().take(1).map(|keys| (String::new(), keys)).collect());
    };
    let primaries = slots.primaries().await.map_err(|error| meaning(&error.into()))?;
    let mut nodes = BTreeMap::new();
    for (primary, keys) in primaries.into_iter().zip(keys) {
        let address = primary.map_or_else(|| "no node".to_owned(), |primary| primary.to_string());
        nodes.entry(address).or_insert(keys);
    }
    Ok(nodes)
}

async fn of_node(
    endpoint: &Endpoint,
    keys: &Keys,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let server = Server::open(endpoint, &keys.meta).await?;
    let info = server.ask(&["INFO"]).await?.text()?;
    RedisProcess::parse(&info, server.is_of_cluster)?;
    if may_evict(&info) {
        let policy = field(&info, "maxmemory_policy").unwrap_or("?");
        findings.add(
            format!("maxmemory-policy {policy} may evict any key, so a guard refuses nothing"),
            "Give it room (maxmemory), then CONFIG SET maxmemory-policy noeviction (and in redis.conf); or accept_eviction(true)",
        );
    }
    let replicas: u64 =
        field(&info, "connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
    if replicas > 0 && field(&info, "min_slaves_good_slaves").is_none() {
        findings.add(
            "writes need no replica: in a failover two primaries may take writes, and existing ids be refused",
            format!(
                "CONFIG SET min-replicas-to-write {} and min-replicas-max-lag 1, on every server. Have two replicas at least: a \
                 new primary that has none takes no writes",
                replicas.div_ceil(2)
            ),
        );
    }
    let (denied, refused) = rights::probe(&server, keys).await;
    refused.iter().for_each(|error| findings.refused(error));
    if !denied.is_empty() {
        let names = Vec::from_iter(denied).join(" +");
        let what = "this user lacks some of the rights that the guide lists";
        findings.add(what, format!("ACL SETUSER {} +{names}", endpoint.user()));
    }
    Ok(())
}

/// Judges the filter as a guard that joins it does. The filter need not be there yet.
async fn of_filter(target: &Target, findings: &mut Findings) -> Result<(), Failure> {
    match target.find().await {
        Ok(Some(_)) => {}
        // A finding about a node says so already.
        Err(error) if findings.all.is_empty() => return Err(error),
        Ok(None) | Err(_) => return Ok(()),
    }
    match target.observe().await.map(|guard| guard.state().live) {
        // A finding about its memory says so already.
        Ok(Ok(_) | Err(Doubt::Refused(Refusal::EVICTION))) => {}
        Ok(Err(doubt)) => findings.add(format!("filter: {doubt}"), doubt.advice()),
        Err(Failure(error)) => findings.add(error, ""),
    }
    Ok(())
}
