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
    let (begun, mut told, mut is_first) = (Instant::now(), None, true);
    let mut seen = Seen { filter: Some(filter), why_not: None };
    loop {
        let waited = begun.elapsed();
        seen.look(target, json).await?;
        if let Some(filter) = &seen.filter {
            if std::mem::take(&mut is_first) {
                note_asked(&mut asked_us, filter);
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
            let stays = if seen.is_asked() { ": what was asked stays asked" } else { "" };
            let mut text = format!("no new filter after {}{stays}", words::span(waited));
            text.extend(seen.why_not.iter().map(|why| format!("\n{why}")));
            say(json, &text, &json!({ "stage": "given up", "seconds": waited.as_secs() }))?;
            return Ok(Ending::Wrong);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The filter as it was read last.
struct Seen {
    filter: Option<Filter>,
    /// Why it, or a part of it, could not be read.
    why_not: Option<String>,
}

impl Seen {
    /// Reads it anew. A Redis that is away is waited for; why is said once.
    async fn look(&mut self, target: &Target, json: bool) -> Result<(), Failure> {
        let why_not = match target.read_again(self.filter.take()).await {
            Ok(filter) => {
                let away = filter.shards.iter().find_map(|shard| shard.away.clone());
                self.filter = Some(filter);
                away.map(|reason| format!("A part of the filter cannot be reached: {reason}."))
            }
            Err(Failure(sentence)) => Some(sentence),
        };
        if let Some(why) = why_not.as_ref().filter(|_| self.why_not != why_not) {
            say(json, why, &json!({ "error": why }))?;
        }
        self.why_not = why_not;
        Ok(())
    }

    /// Whether what was asked is still there: not where the metadata were lost.
    fn is_asked(&self) -> bool {
        let shards = self.filter.iter().flat_map(|filter| &filter.shards);
        shards.map(|shard| shard.metadata.asked_us).any(|asked| asked > 0)
    }
}

/// Notes for when a rebuild was asked. Where Redis's clock was set back, filters that are there are ahead of it, and so is that.
fn note_asked(asked_us: &mut [i64], filter: &Filter) {
    for (asked, shard) in asked_us.iter_mut().zip(&filter.shards) {
        *asked = shard.metadata.asked_us.max(*asked);
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
