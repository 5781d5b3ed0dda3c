//! `rebuild`: has a process rebuild a filter, and waits for it.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::outcome::{Failure, Outcome, say};
use super::status::Fleet;
use super::target::{Target, insist, look};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Seconds within which a process with a source begins, if no rebuild has failed lately.
const SOON: u64 = 5;
const NOBODY: &str =
    "no process rebuilds: has any a source, did a rebuild fail lately? Their logs say";

/// Asks the processes of a filter to rebuild it, and waits until a new one is live; says what happens meanwhile.
///
/// A process that has a source begins within a few seconds: after a rebuild that is under way, or after the wait that follows one that
/// failed.
///
/// Exit status 1: no new filter was live within the time. What was asked stays asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// For how long it waits, in seconds; a rebuild ends within 105 minutes.
    #[arg(long, value_name = "SECONDS", default_value_t = 7_200)]
    wait: u64,
}

pub(super) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let Arguments { target, wait } = arguments;
    let guard = target.observe().await?;
    insist(async || guard.request_rebuild().await).await?;
    // Where Redis's clock was set back, this is ahead of it, as the filters are.
    let asked_us = fleet(target).await?.asked_us;
    let (begun, mut told) = (Instant::now(), String::new());
    loop {
        // A Redis that is away is waited for.
        let state = look(&guard).await.unwrap_or_else(|_| guard.state());
        let live = state.live.as_ref().ok().filter(|live| live.generation.get() > asked_us);
        let live = live.filter(|_| state.is_ready());
        let seconds = begun.elapsed().as_secs();
        let stage = match (live, fleet(target).await) {
            (Some(live), _) => format!("a new filter is live: {} ids", live.items),
            (None, _) if seconds >= *wait => "no new filter: what was asked stays asked".to_owned(),
            (None, Ok(Fleet { rebuilding: Some((_, by)), .. })) => format!("rebuilt by {by}"),
            (None, Ok(_)) if seconds >= SOON => NOBODY.to_owned(),
            (None, Ok(_)) => "asked for".to_owned(),
            (None, Err(Failure(error))) => error,
        };
        if stage != told {
            let value = json!({ "seconds": seconds, "stage": stage });
            say(json, &format!("{seconds} s: {stage}"), &value)?;
            told = stage;
        }
        if live.is_some() || seconds >= *wait {
            return Ok(live.is_none());
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Reads the metadata on a new connection: Redis may have failed over.
async fn fleet(target: &Target) -> Result<Fleet, Failure> {
    let (server, keys) = target.found().await?;
    Ok(Fleet::read(&server, &keys, target).await?)
}
