//! `verify`: which of many ids that exist would be refused.

use std::io::{self, BufRead};

use serde::Serialize;
use serde_json::json;

use super::check::ask;
use super::outcome::{Failure, Outcome, advised, say};
use super::status::refuses;
use super::target::{ASKED, Target};
use crate::id::Id;
use crate::middleware::layer::BloomGuard;
use crate::verdict::{Doubt, Proof, Verdict};

#[derive(Debug, Default, Serialize)]
struct Tally {
    ids: u64,
    present: u64,
    refused: u64,
    unknown: u64,
    doubt: Option<Doubt>,
}

/// Ids with their lines; `None` for a line that is too long to be an id.
type Batch = Vec<(u64, Option<Id>)>;

pub(super) async fn run(target: &Target, json: bool) -> Outcome {
    let guard = target.observe().await?;
    let mut lines = io::stdin().lock().split(b'\n').zip(1_u64..);
    let mut tally = Tally::default();
    loop {
        let read: Vec<_> = lines.by_ref().take(ASKED).collect();
        if read.is_empty() {
            break;
        }
        let mut batch = Batch::new();
        for (line, number) in read {
            let line = line?;
            // A byte order mark is no part of an id.
            let id = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line);
            let id = id.strip_suffix(b"\r").unwrap_or(id);
            if !id.is_empty() {
                batch.push((number, Id::new(id).ok()));
            }
        }
        tally.take(&guard, batch, json).await?;
    }
    if tally.ids == 0 {
        return Err(Failure(
            "no id was given: `verify` reads them from its standard input, one a line".to_owned(),
        ));
    }
    let note = refuses(&guard.state()).err();
    say(json, &tally.words(note.as_deref()), &json!({ "tally": tally, "note": note }))?;
    Ok(tally.refused + tally.unknown > 0)
}

impl Tally {
    async fn take(&mut self, guard: &BloomGuard, batch: Batch, json: bool) -> Result<(), Failure> {
        self.ids += batch.len() as u64;
        let ids: Vec<Id> = batch.iter().filter_map(|(_, id)| id.clone()).collect();
        let mut lookups = ask(guard, &ids).await?.into_iter();
        for (line, id) in batch {
            let verdict = id.as_ref().and_then(|_| lookups.next()).map(|lookup| lookup.verdict);
            let by = match verdict {
                Some(Verdict::Absent(Proof::Filter)) => "the filter lacks it",
                Some(Verdict::Absent(Proof::Null)) => "a null, of a 404 or a removal",
                Some(Verdict::Unknown(doubt)) => {
                    self.unknown += 1;
                    self.doubt = Some(doubt);
                    continue;
                }
                Some(Verdict::Present) => {
                    self.present += 1;
                    continue;
                }
                None => "no id is so long",
            };
            self.refused += 1;
            let id = id.map_or_else(
                || format!("more than {} bytes", Id::MAX_LEN),
                |id| String::from_utf8_lossy(id.as_bytes()).into_owned(),
            );
            let words = format!("line {line}: {id}: refused: {by}");
            say(json, &words, &json!({ "line": line, "id": id, "refused_by": by }))?;
        }
        Ok(())
    }

    fn words(&self, note: Option<&str>) -> String {
        let Self { ids, present, refused, unknown, doubt } = self;
        let mut text = format!("{ids} ids: {present} present, {refused} would be refused");
        text.extend(
            doubt.map(|doubt| format!("\n{unknown} unknown: {}", advised(doubt, doubt.advice()))),
        );
        text.extend(note.map(|note| format!("\nNow nothing is refused: {note}")));
        text
    }
}
