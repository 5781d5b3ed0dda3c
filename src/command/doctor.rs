//! `doctor`: whether a Redis can serve a guard, and what to do where it cannot.

use std::collections::BTreeMap;

use serde_json::json;

use super::facts::{self, Findings};
use super::outcome::{Failure, Outcome, say};
use super::rights;
use super::target::{Server, Target};
use crate::error::StoreError;
use crate::filter::Sizing;
use crate::observe::state::GuardState;
use crate::refusal::Refusal;
use crate::store::link::process::Memory;
use crate::store::link::transport::meaning;
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::keys::Keys;
use crate::verdict::Doubt;

pub(super) async fn run(target: &Target, json: bool) -> Outcome {
    let mut findings = Findings::default();
    let endpoint = target.endpoint()?;
    let nodes = nodes(target, &endpoint).await?;
    let mut memory = Vec::new();
    for (address, keys) in &nodes {
        findings.node.clone_from(address);
        match of_node(&endpoint, keys, endpoint.user(), &mut findings).await {
            Ok(told) => memory.extend(told),
            // Where nothing answers at all, there is nothing to judge.
            Err(error)
                if nodes.len() == 1
                    && matches!(error.doubt(), Doubt::Disconnected | Doubt::Timeout) =>
            {
                return Err(error.into());
            }
            Err(error) => facts::of_refusal(&error, endpoint.user(), &mut findings),
        }
    }
    findings.node.clear();
    of_filter(target, &memory, &mut findings).await?;
    say(
        json,
        &findings.text(),
        &json!({ "sound": !findings.is_wrong(), "findings": findings.all }),
    )?;
    Ok(findings.is_wrong())
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

/// Judges one node; returns its memory, if that is limited.
async fn of_node(
    endpoint: &Endpoint,
    keys: &Keys,
    user: &str,
    findings: &mut Findings,
) -> Result<Option<Memory>, StoreError> {
    let server = Server::open(endpoint, &keys.meta).await?;
    let info = server.ask(&["INFO"]).await?.text()?;
    facts::judge(&server, &info, findings).await?;
    rights::probe(&server, keys, user, findings).await;
    Ok(Memory::parse(&info))
}

async fn of_filter(
    target: &Target,
    memory: &[Memory],
    findings: &mut Findings,
) -> Result<(), Failure> {
    let next = match target.find().await {
        Ok(Some(_)) => match target.observe().await {
            Ok(guard) => of_state(&guard.state(), findings),
            Err(Failure(error)) => {
                findings.wrong(error, "");
                return Ok(());
            }
        },
        Ok(None) => {
            let name = &target.name;
            findings.add(
                "note",
                format!("filter: there is none {name:?} yet"),
                "The first guard makes it.",
            );
            2 * Sizing::DEFAULT.bytes()
        }
        // A finding about a node says so already.
        Err(_) if findings.is_wrong() => return Ok(()),
        Err(error) => return Err(error),
    };
    for Memory { used, limit } in memory {
        let needed = used + next;
        if needed > *limit {
            findings.refused(&StoreError::no_room(needed, *limit));
        }
    }
    Ok(())
}

/// Returns how many bytes a rebuild needs at a time.
fn of_state(state: &GuardState, findings: &mut Findings) -> u64 {
    match &state.live {
        Ok(live) => {
            findings.add("sound", "filter: live, of this Redis process and this secret key", "");
            return live.bytes / state.shards.map_or(1, |shards| shards.all);
        }
        // A finding about its memory says so already.
        Err(Doubt::Refused(Refusal::EVICTION)) => {}
        Err(doubt) => findings.wrong(format!("filter: {doubt}"), doubt.advice()),
    }
    0
}
