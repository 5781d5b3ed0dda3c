//! `verify`: which of many ids that exist would be refused.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, Instant};

use bloom_guard::inspect::{Filter, Looked};
use bloom_guard::{Doubt, Id, Verdict};
use serde_json::json;

use crate::check::notes;
use crate::outcome::{Ending, Failure, Outcome, say};
use crate::status::Standing;
use crate::target::Target;
use crate::words;

/// How many ids are read before they are asked for.
const BATCH: usize = 1 << 14;
/// How often progress is told.
const TOLD: Duration = Duration::from_millis(500);

/// Reads ids that exist, one a line, and names each that the filter would refuse. Only reads.
///
/// Whether the filter settles and which mode is set does not count: it is told at the end. Give ids as the guard's extractor writes
/// them. Empty lines are left out.
///
/// Exit status 1: an id would be refused, or could not be looked up. Without any id nothing is verified: 2.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Tally {
    ids: u64,
    present: u64,
    refused: u64,
    by_null: u64,
    too_long: u64,
    unknown: u64,
    doubt: Option<Doubt>,
}

/// The ids of a batch, each with its line.
type Batch = Vec<(u64, Vec<u8>)>;

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let mut filter = arguments.target.read().await?;
    if !filter.has_key() {
        return Err(bloom_guard::inspect::InspectError::NoKey.into());
    }
    let (mut input, mut tally, begun) = (io::stdin().lock(), Tally::default(), Instant::now());
    let (mut lines, mut told) = (0, Instant::now());
    loop {
        let batch = read(&mut input, &mut lines)?;
        if batch.is_empty() {
            break;
        }
        tally.take(&mut filter, batch, json).await?;
        if io::stderr().is_terminal() && told.elapsed() > TOLD {
            told = Instant::now();
            tally.tell_progress(begun.elapsed());
        }
    }
    if io::stderr().is_terminal() {
        write!(io::stderr(), "\r\x1b[K")?;
    }
    if tally.ids == 0 {
        return Err(Failure(
            "No id was given: `verify` reads them from its standard input, one a line.".to_owned(),
        ));
    }
    tally.summary(&filter, begun.elapsed(), json)?;
    Ok(Ending::wrong_if(tally.refused + tally.too_long + tally.unknown > 0))
}

/// Reads a batch of lines.
fn read(input: &mut impl BufRead, lines: &mut u64) -> Result<Batch, Failure> {
    let mut batch = Batch::new();
    while batch.len() < BATCH {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        *lines += 1;
        let end = line.trim_ascii_end().len();
        line.truncate(end);
        if !line.is_empty() {
            batch.push((*lines, line));
        }
    }
    Ok(batch)
}

impl Tally {
    async fn take(&mut self, filter: &mut Filter, batch: Batch, json: bool) -> Result<(), Failure> {
        self.ids += batch.len() as u64;
        let (fit, too_long): (Batch, Batch) =
            batch.into_iter().partition(|(_, id)| id.len() <= Id::MAX_LEN);
        self.too_long += too_long.len() as u64;
        for (line, id) in too_long {
            let words = format!(
                "line {line}: {} bytes, and an id has at most {}: any request for it is refused",
                id.len(),
                Id::MAX_LEN
            );
            say(json, &words, &json!({ "line": line, "refused_by": "length" }))?;
        }
        let ids: Vec<&[u8]> = fit.iter().map(|(_, id)| id.as_slice()).collect();
        let looked = filter.look(&ids).await?;
        for ((line, id), looked) in fit.iter().zip(looked) {
            self.note(*line, id, looked, json)?;
        }
        Ok(())
    }

    fn note(&mut self, line: u64, id: &[u8], looked: Looked, json: bool) -> Result<(), Failure> {
        let proof = match looked.verdict {
            Verdict::Absent(proof) => proof,
            Verdict::Unknown(doubt) => {
                self.unknown += 1;
                self.doubt = Some(doubt);
                return Ok(());
            }
            _ => {
                self.present += 1;
                return Ok(());
            }
        };
        self.refused += 1;
        let mut by = "the filter lacks it".to_owned();
        if proof == bloom_guard::Proof::Null {
            self.by_null += 1;
            let to = if looked.only_anonymous { ", to requests without credentials" } else { "" };
            by = format!("a null, of a 404 or a removal{to}");
        }
        let text = words::id(id);
        let value = json!({ "line": line, "id": String::from_utf8_lossy(id), "refused_by": proof.as_str() });
        say(json, &format!("{text}: refused: {by}"), &value)
    }

    fn tell_progress(&self, since: Duration) {
        let rate = (self.ids as f64 / since.as_secs_f64()) as u64;
        let (ids, refused) = (words::number(self.ids), words::number(self.refused));
        // It is only progress.
        let _told = write!(
            io::stderr(),
            "\r\x1b[K{ids} ids, {} a second, {refused} refused",
            words::number(rate)
        );
    }

    fn summary(&self, filter: &Filter, took: Duration, json: bool) -> Result<(), Failure> {
        let Self { ids, present, refused, by_null, too_long, unknown, doubt } = self;
        let mut text = format!(
            "{}: {} present, {} would be refused ({} by nulls)",
            words::count(*ids, "id", "ids"),
            words::number(*present),
            words::number(refused + too_long),
            words::number(*by_null),
        );
        if let Some(doubt) = doubt {
            text += &format!("\n{} unknown: {doubt}. {}", words::number(*unknown), doubt.advice());
        }
        for note in of_all(filter) {
            text += &format!("\n{note}");
        }
        let value = json!({
            "ids": ids, "present": present, "refused": refused, "by_null": by_null, "too_long": too_long,
            "unknown": unknown, "doubt": doubt.map(Doubt::as_str), "seconds": took.as_secs_f64(),
            "notes": of_all(filter),
        });
        say(json, &text, &value)
    }
}

/// What has requests pass, whatever the filter says.
fn of_all(filter: &Filter) -> Vec<String> {
    let standing = Standing::of(filter);
    let passes = (!standing.is_whole()).then(|| format!("Now {}", standing.refusing_words()));
    passes.into_iter().chain(notes(filter)).collect()
}
