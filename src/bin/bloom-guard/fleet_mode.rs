//! `mode`: changes how all processes of a filter act.

use bloom_guard::{BloomGuard, Mode};
use serde_json::json;

use crate::check::notes;
use crate::joined;
use crate::outcome::{Ending, Outcome, say};
use crate::status::{Standing, name};
use crate::target::Target;

/// Switches all processes of a filter; returns after three seconds, when they all act so.
///
/// `off` lets all pass, and nobody is asked: the database is not shielded then. `shadow` lets all pass, and counts what would be
/// refused. `enforce` refuses at once, unless the filter settles. That includes records that processes without this filter created
/// meanwhile. Where there may be such, end a milder mode by `enforce_everywhere` in the application instead: it waits for their
/// transactions and rebuilds first. Or wait so long, then `rebuild`, then `mode enforce`.
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
    let filter = target.read().await?;
    let (before, notes) = (Standing::of(&filter).mode, notes(&filter));
    let set = |guard: BloomGuard| async move { guard.set_fleet_mode(mode).await.map(drop) };
    let changed = joined::change(target, &filter, set).await;
    let filter = target.read_again(Some(filter)).await?;
    let standing = Standing::of(&filter);
    let set = standing.mode;
    // The newest mode that any shard has is that of all processes, and they tell it to the others when these are back.
    if standing.away.is_none() || set != mode {
        changed?;
    }
    let mut text = format!("mode of all processes: {}, before: {}", name(set), name(before));
    if set == Mode::Enforce && before != Mode::Enforce {
        text += "\nIds that processes without this filter created meanwhile are refused until a rebuild has read them.";
    }
    if set == Mode::Enforce && !standing.is_whole() {
        text += &format!("\n{}", standing.refusing_words());
        if let Some(rest) = standing.settling_words() {
            text += &format!(" {rest}");
        }
    }
    if let Some(away) = &standing.away {
        text += &format!(
            "\nA part of the filter cannot be reached, and takes it when it is back: {away}"
        );
    }
    for note in &notes {
        text += &format!("\n{note}");
    }
    let value = json!({ "mode": name(set), "before": name(before), "refuses": standing.refuses(), "away": standing.away, "notes": notes });
    say(json, &text, &value)?;
    Ok(Ending::wrong_if(set != mode))
}
