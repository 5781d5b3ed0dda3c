//! `drop`: deletes the keys of a filter.

use bloom_guard::StoreError;
use bloom_guard::inspect::Shard;
use serde_json::json;

use crate::check::AWAY_MS;
use crate::outcome::{Ending, Failure, Outcome, say};
use crate::status::Standing;
use crate::target::Target;
use crate::words;

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
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for shard in &filter.shards {
        let (keys, note) = keys_of(shard).await?;
        notes.extend(note);
        found.push((shard, keys));
    }
    if arguments.yes {
        delete(&found).await?;
    }
    notes.dedup();
    let keys = || found.iter().flat_map(|(_, keys)| keys);
    let nulls = keys().filter(|key| key.contains("}:null:")).count();
    let mut names: Vec<&String> = keys().filter(|key| !key.contains("}:null:")).collect();
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

/// Deletes the metadata last, and those of the first shards after all others: while they are there, the filter is found, and the command
/// can be repeated.
async fn delete(found: &[(&Shard, Vec<String>)]) -> Result<(), Failure> {
    let (mut others, mut metadata) = (Vec::new(), Vec::new());
    for (shard, keys) in found {
        let (meta, other): (Vec<&str>, Vec<&str>) =
            keys.iter().map(String::as_str).partition(|key| key.ends_with("}:meta"));
        others.push((shard, other));
        metadata.push((shard, meta));
    }
    for (shard, keys) in others.into_iter().chain(metadata.into_iter().rev()) {
        for keys in keys.chunks(500) {
            shard.server().ask(&[&["DEL"], keys].concat()).await?;
        }
    }
    Ok(())
}
