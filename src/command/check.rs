//! `check`: what becomes of requests for ids, and why.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::outcome::{Failure, Outcome, advised, say};
use super::status::{Fleet, span};
use super::target::{ASKED, Server, Target, look};
use crate::id::{Digest, Id};
use crate::middleware::layer::BloomGuard;
use crate::mode::Mode;
use crate::nulls::scope::Scope;
use crate::observe::state::GuardState;
use crate::store::link::session::Purpose;
use crate::store::redis::keys::Keys;
use crate::store::{Lookup, Store};
use crate::verdict::{Proof, Verdict};

const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// Says of each id what becomes of a request for it, and why. Only reads.
///
/// Give ids as the guard's extractor writes them: 7 and not 007 where its type is a number, a UUID in lower case. What a process has
/// found lately, or has in its copy of the filter, passes there without being asked for.
///
/// Exit status 1: an id is refused.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The ids; what begins with a `-` and is no number goes behind a `--`.
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Trace {
    digest: Option<String>,
    /// How long ago it was inserted, if lately.
    inserted_ago: Option<Duration>,
    /// For how long a null refuses it still.
    null_lasts: Option<Duration>,
}

pub(super) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let target = &arguments.target;
    let ids =
        arguments.ids.iter().map(|id| Id::new(id.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let guard = target.observe().await?;
    let (server, keys) = target.found().await?;
    let fleet = Fleet::read(&server, &keys, target).await?;
    let lookups = ask(&guard, &ids).await?;
    let state = guard.state();
    let (mut text, mut values, mut refused) = (String::new(), Vec::new(), false);
    for ((id, lookup), given) in ids.iter().zip(&lookups).zip(&arguments.ids) {
        let digest = digest(&guard.guard.store, id);
        let trace = trace(target, &fleet, digest).await.unwrap_or_default();
        let (request, why) = (fate(lookup, state.fleet_mode), why(lookup, &trace, &state, &fleet));
        refused |= request.starts_with("refused");
        text += &format!("{}: {request}\n  {}\n", given.escape_debug(), why.join("\n  "));
        let verdict = lookup.verdict.as_str();
        values.push(json!({ "id": given, "request": request, "verdict": verdict, "trace": trace, "why": why }));
    }
    say(json, &text, &json!({ "ids": values, "state": state, "fleet": fleet }))?;
    Ok(refused)
}

/// Returns the digest by which Redis names an id, if the secret key is known.
fn digest(store: &Store, id: &Id) -> Option<Digest> {
    let Store::Redis(shards) = store else { return None };
    let (shard, placed) = shards.place(id, None);
    let live = || shard.current(Purpose::Checks).ok();
    placed.map(|of| of.digest).or_else(|| Some(live()?.identity.digester.digest(id)))
}

/// Asks for ids as a guard does, and again if the filter was replaced at that moment.
pub(super) async fn ask(guard: &BloomGuard, ids: &[Id]) -> Result<Vec<Lookup>, Failure> {
    let mut lookups = Vec::with_capacity(ids.len());
    for ids in ids.chunks(ASKED) {
        let sought: Vec<_> = ids.iter().map(|id| (id, None)).collect();
        let look_up = async || guard.guard.store.check(&sought, Instant::now()).answer().await;
        let mut found = look_up().await;
        for _ in 1..TRIES {
            if !found.iter().any(|lookup| matches!(lookup.verdict, Verdict::Unknown(_))) {
                break;
            }
            sleep(PAUSE).await;
            look(guard).await?;
            found = look_up().await;
        }
        lookups.extend(found);
    }
    Ok(lookups)
}

async fn trace(target: &Target, fleet: &Fleet, digest: Option<Digest>) -> Result<Trace, Failure> {
    let Some(digest) = digest else { return Ok(Trace::default()) };
    let keys: Vec<Keys> = target.keys().collect();
    let keys = &keys[digest.shard(keys.len())];
    let server = Server::open(&target.endpoint()?, &keys.meta).await?;
    let null = server.ask(&["PTTL", &keys.null(&digest)]).await?.int()?;
    // An insert's number is the time at which it was made, µs.
    let number = server.ask(&[b"ZSCORE", keys.recent.as_bytes(), digest.as_bytes()]).await?;
    let number = number.text().ok().and_then(|number| number.parse().ok());
    let ago =
        |number: f64| Duration::from_micros((fleet.now_us as u64).saturating_sub(number as u64));
    Ok(Trace {
        inserted_ago: number.map(ago),
        null_lasts: u64::try_from(null).ok().map(Duration::from_millis),
        digest: Some(digest.to_string()),
    })
}

fn fate(lookup: &Lookup, mode: Mode) -> String {
    match (lookup.verdict, mode) {
        (Verdict::Absent(_), Mode::Enforce) => "refused with 404".to_owned(),
        (Verdict::Absent(_), mode) => {
            format!("let through: the mode of all processes is {mode}; else it would be refused")
        }
        (Verdict::Unknown(doubt), Mode::Enforce) => {
            format!("not refused, but may share the lane: {doubt}")
        }
        (Verdict::Unknown(_), mode) => format!("let through: the mode of all processes is {mode}"),
        _ => "let through".to_owned(),
    }
}

fn why(lookup: &Lookup, trace: &Trace, state: &GuardState, fleet: &Fleet) -> Vec<String> {
    let mut why = vec![match lookup.verdict {
        Verdict::Absent(Proof::Null) => {
            let whom = match lookup.scope {
                Scope::Anonymous => "requests without Cookie and Authorization",
                Scope::Everyone => "all requests",
            };
            let rest = span(trace.null_lasts.unwrap_or_default());
            format!(
                "absent by a null: a handler answered 404 for it, or it was removed; that holds for {whom}, for {rest} more"
            )
        }
        Verdict::Absent(_) => "absent by the filter: it does not contain the id".to_owned(),
        Verdict::Unknown(doubt) => format!("unknown: {}", advised(doubt, doubt.advice())),
        _ => "present: the filter may contain it; it exists, or is a false positive".to_owned(),
    }];
    if let (Verdict::Absent(_), Mode::Enforce) = (lookup.verdict, state.fleet_mode) {
        why.push("a process that found the id lately, or has it in its copy, lets requests for it pass all the same".to_owned());
    }
    why.extend(state.live.as_ref().ok().map(|live| format!("filter: {live}")));
    why.extend(match (trace.inserted_ago, lookup.verdict) {
        (Some(ago), _) => Some(format!(
            "inserted {} ago: by the application, or by the canary that found it missing",
            span(ago)
        )),
        (None, Verdict::Absent(Proof::Filter)) => Some(
            "not inserted since that build, and its source did not give it: if the record is newer than the build, it was created \
             without insert; if older, the source leaves it out, or the filter is another's; or it is written otherwise (7 or 007)"
                .to_owned(),
        ),
        (None, _) => None,
    });
    let digest = trace.digest.as_ref();
    why.extend(digest.map(|of| format!("digest {of}, which stands for it in Redis")));
    why.extend(fleet.note());
    why
}
