//! `drop`: deletes the keys of a filter.

use bloom_guard::StoreError;
use bloom_guard::inspect::Shard;
use serde_json::json;

use crate::outcome::{Ending, Failure, Outcome, say};
use crate::status::Standing;
use crate::target::Target;
use crate::words;

/// A process polls at least once in this time, ms; after it, another one would have the filter settle.
const AWAY_MS: i64 = 60_000;

/// Deletes all keys of a filter, and says which. Refuses while a process has polled it within the last minute.
///
/// Without --yes it only says what it would delete; exit status 2 then.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Deletes them.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let filter = arguments.target.read_whole().await?;
    let ago_ms = Standing::of(&filter).polled_ago_ms;
    if ago_ms < AWAY_MS {
        return Err(Failure(format!(
            "A process has polled {:?} {} ago: stop all processes that use it, wait for a minute, and try again.",
            arguments.target.name,
            words::span_ms(ago_ms)
        )));
    }
    let (mut keys, mut notes) = (Vec::new(), Vec::new());
    for shard in &filter.shards {
        let (found, note) = keys_of(shard).await?;
        notes.extend(note);
        if arguments.yes {
            delete(shard, &found).await?;
        }
        keys.extend(found);
    }
    notes.dedup();
    let nulls = keys.iter().filter(|key| key.contains("}:null:")).count();
    let mut names: Vec<&String> = keys.iter().filter(|key| !key.contains("}:null:")).collect();
    names.sort();
    let done = if arguments.yes { "deleted" } else { "would delete" };
    let mut text: String = names.iter().map(|key| format!("{done} {key}\n")).collect();
    text += &format!("{done} {}", words::count(nulls as u64, "null", "nulls"));
    for note in &notes {
        text += &format!("\n{note}");
    }
    let value = json!({ "deleted": arguments.yes, "keys": names, "nulls": nulls, "notes": notes });
    say(json, &text, &value)?;
    if arguments.yes {
        return Ok(Ending::Fine);
    }
    Err(Failure("Nothing was deleted: give --yes to delete these keys.".to_owned()))
}

/// Finds the keys of a shard that are there, and says if nulls cannot be found.
async fn keys_of(shard: &Shard) -> Result<(Vec<String>, Option<String>), Failure> {
    let mut found = Vec::new();
    for key in shard.keys() {
        for key in [format!("{key}:aside"), key] {
            if shard.server().ask(&["EXISTS", &key]).await?.text() == "1" {
                found.push(key);
            }
        }
    }
    let (pattern, mut cursor) = (format!("{}null:*", shard.prefix()), "0".to_owned());
    loop {
        let words = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"];
        let said = match shard.server().ask(&words).await {
            Err(StoreError::Refused { .. }) => {
                let note = "Nulls stay, as this user may not SCAN: they end by themselves.";
                return Ok((found, Some(note.to_owned())));
            }
            said => said?,
        };
        let [next, keys] = said.list() else { return Ok((found, None)) };
        found.extend(keys.list().iter().map(bloom_guard::inspect::Said::text));
        cursor = next.text();
        if cursor == "0" {
            found.sort();
            found.dedup();
            return Ok((found, None));
        }
    }
}

/// Deletes the metadata last: while they are there, the command can be repeated.
async fn delete(shard: &Shard, keys: &[String]) -> Result<(), Failure> {
    let (meta, others): (Vec<&String>, Vec<&String>) =
        keys.iter().partition(|key| key.ends_with("}:meta"));
    for keys in others.chunks(500).chain(meta.chunks(1)) {
        let words: Vec<&str> =
            std::iter::once("DEL").chain(keys.iter().map(|key| key.as_str())).collect();
        shard.server().ask(&words).await?;
    }
    Ok(())
}
