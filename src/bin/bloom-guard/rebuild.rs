//! `rebuild`: has a process rebuild a filter, and waits for it.

use std::time::Duration;

use bloom_guard::BloomGuard;
use bloom_guard::inspect::Filter;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::check::notes;
use crate::joined;
use crate::outcome::{Ending, Failure, Outcome, say};
use crate::status::Standing;
use crate::target::Target;
use crate::words;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Within this time a process begins, if one has a source and none has failed lately.
const SOON: Duration = Duration::from_secs(5);

/// Asks the processes of a filter to rebuild it, and waits until a new one is live; says what happens meanwhile.
///
/// A process that has a source begins within a few seconds: after a rebuild that is under way, or after the wait that follows one that
/// failed. This joins the filter as `mode` does.
///
/// Exit status 1: no new filter was live within the time. What was asked stays asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// For how long it waits, in seconds; a rebuild ends within 105 minutes.
    #[arg(long, value_name = "SECONDS", default_value_t = 7_200)]
    wait: u64,
}

/// What can be seen of it from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// No rebuild is under way yet; or for longer than it takes a process to begin one.
    Idle { late: bool },
    /// A process reads its source.
    Scans,
    /// The new filter comes into Redis.
    Uploads { live: usize },
    /// All shards have a filter that was begun later.
    Done,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let target = &arguments.target;
    let filter = target.read_whole().await?;
    let mut asked_us = filter.shards.iter().map(|shard| shard.now_us).collect::<Vec<_>>();
    let notes = notes(&filter);
    for note in &notes {
        say(json, note, &json!({ "note": note }))?;
    }
    let ask = |guard: BloomGuard| async move { guard.request_rebuild().await };
    joined::change(target, &filter, ask).await?;
    let (begun, mut told, mut filter) = (Instant::now(), None, Some(filter));
    loop {
        let waited = begun.elapsed();
        // A Redis that is away is waited for.
        filter = target.read_again(filter, json).await?;
        if let Some(filter) = &filter {
            for (asked, shard) in asked_us.iter_mut().zip(&filter.shards) {
                // Where Redis's clock was set back, filters that are there are ahead of it, and what was asked is, too.
                *asked = shard.metadata.asked_us.max(*asked);
            }
            let stage = stage(filter, &asked_us, waited > SOON);
            if told != Some(stage) {
                tell(stage, filter, waited, json)?;
                told = Some(stage);
            }
            if stage == Stage::Done {
                return Ok(Ending::Fine);
            }
        }
        if waited.as_secs() >= arguments.wait {
            let text =
                format!("no new filter after {}: what was asked stays asked", words::span(waited));
            say(json, &text, &json!({ "stage": "given up", "seconds": waited.as_secs() }))?;
            return Ok(Ending::Wrong);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Tells how far it is.
fn stage(filter: &Filter, asked_us: &[i64], late: bool) -> Stage {
    let shards = || filter.shards.iter().zip(asked_us);
    let live = shards()
        .filter(|(shard, asked)| shard.generation().is_ok_and(|live| live.get() > **asked))
        .count();
    if live == filter.shards.len() {
        return Stage::Done;
    }
    let is_at_it = filter.shards.iter().any(|shard| shard.rebuilt_by.is_some());
    let uploads = filter.shards.iter().any(|shard| shard.next.is_some());
    match is_at_it {
        false => Stage::Idle { late },
        true if live > 0 || uploads => Stage::Uploads { live },
        true => Stage::Scans,
    }
}

fn tell(stage: Stage, filter: &Filter, waited: Duration, json: bool) -> Result<(), Failure> {
    let all = filter.shards.len();
    let (name, text) = match stage {
        Stage::Idle { late: false } => ("asked", "asked for".to_owned()),
        Stage::Idle { late: true } => (
            "asked",
            "no process rebuilds: has any a source, did a rebuild fail lately? Their logs say"
                .to_owned(),
        ),
        Stage::Scans => {
            let standing = Standing::of(filter);
            let process = standing.rebuilder().unwrap_or("a process");
            ("scan", format!("{process} reads its source"))
        }
        Stage::Uploads { live: 0 } => ("upload", "the new filter is uploaded".to_owned()),
        Stage::Uploads { live } => ("upload", format!("{live} of {all} shards are live")),
        Stage::Done => {
            let items = filter.shards.iter().filter_map(|shard| shard.numbers().ok());
            let items = items.map(|numbers| numbers.0).sum();
            ("live", format!("a new filter is live: {}", words::count(items, "id", "ids")))
        }
    };
    let text = format!("{} s: {text}", waited.as_secs());
    say(json, &text, &json!({ "stage": name, "seconds": waited.as_secs() }))
}
