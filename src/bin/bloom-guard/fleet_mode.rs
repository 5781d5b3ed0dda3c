//! `mode`: changes how all processes of a filter act.

use std::time::Duration;

use bloom_guard::inspect::InspectError;
use bloom_guard::{BloomGuard, Mode, PathPattern};
use serde_json::json;
use tokio::time::sleep;

use crate::outcome::{Ending, Failure, Outcome, say};
use crate::status::{Standing, name};
use crate::target::{Target, secret_key};

/// How often it is tried, and with which pause: a connection may take some time.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// Switches all processes of a filter; returns after three seconds, when they all act so.
///
/// `off` lets all pass, and nobody is asked: the database is not shielded then. `shadow` lets all pass, and counts what would be
/// refused. `enforce` refuses at once, also records that processes without this filter created meanwhile. Where there may be such, end a
/// milder mode by `enforce_everywhere` in the application instead: it rebuilds first.
///
/// This joins the filter as a process without source does. So it writes to the metadata, besides the mode, what each poll of a process
/// writes: that they were looked at (after a minute in which no process did, that the filter settles), and which Redis process they are on.
/// It asks for the shortest transaction there is, so it makes no mark of others last longer; where no process has polled for as long as a
/// mark lasts, later ones are short until a process asks for more.
///
/// Exit status 1: another mode was set meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// What all processes do from now on.
    mode: Wanted,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Wanted {
    Enforce,
    Shadow,
    Off,
}

impl From<Wanted> for Mode {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Enforce => Self::Enforce,
            Wanted::Shadow => Self::Shadow,
            Wanted::Off => Self::Off,
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let (target, mode) = (&arguments.target, Mode::from(arguments.mode));
    let mut filter = target.read().await?;
    // With a drawn key and none in Redis, a guard would make another filter.
    if !filter.has_key() {
        return Err(InspectError::NoKey.into());
    }
    let before = Standing::of(&filter).mode;
    let guard = guard(target, filter.shards.len())?;
    for tries in 1.. {
        match guard.set_fleet_mode(mode).await {
            Ok(()) => break,
            Err(error) if tries == TRIES => return Err(error.into()),
            Err(_) => sleep(PAUSE).await,
        }
    }
    filter.refresh().await?;
    let standing = Standing::of(&filter);
    let set = standing.mode;
    let mut text = format!("mode of all processes: {}, before: {}", name(set), name(before));
    if set == Mode::Enforce && before != Mode::Enforce {
        text += "\nWhat processes without this filter created meanwhile is refused until a rebuild reads it.";
    }
    let value = json!({ "mode": name(set), "before": name(before), "refuses": standing.refuses() });
    say(json, &text, &value)?;
    Ok(Ending::wrong_if(set != mode))
}

/// A guard that rebuilds nothing, and asks other processes for nothing.
fn guard(target: &Target, shards: usize) -> Result<BloomGuard, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure(format!("{error}."));
    let pattern = PathPattern::<String>::new("/{id}").map_err(|error| wrong(&error))?;
    let mut builder = BloomGuard::builder(&target.name, pattern)
        .redis(&target.url()?)
        .shards(u32::try_from(shards).unwrap_or(1))
        .longest_transaction(Duration::from_secs(1))
        .handler_time(Duration::from_millis(100))
        .audits_per_second(0)
        .copy_limit(0);
    if let Some(key) = secret_key()? {
        builder = builder.secret_key(key);
    }
    builder.build().map_err(|error| wrong(&error))
}
