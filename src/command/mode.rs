//! `mode`: changes how all processes of a filter act.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde_json::json;

use super::outcome::{Outcome, say};
use super::status::refuses;
use super::target::{Target, insist};
use crate::mode::Mode;

/// Switches all processes of a filter; returns after three seconds, when they all act so.
///
/// `off` lets all pass, and nobody is asked: the database is not shielded then. `shadow` lets all pass, and counts what would be
/// refused. `enforce` refuses at once, unless the filter settles. That includes records that processes without this filter created
/// meanwhile. Where there may be such, end a milder mode by `enforce_everywhere` in the application instead: it waits for their
/// transactions and rebuilds first. Or wait so long, then `rebuild`, then `mode enforce`.
///
/// Where a part of the filter cannot be reached this fails, and the mode holds for the rest.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// What all processes do from now on.
    #[arg(value_parser = PossibleValuesParser::new(["enforce", "shadow", "off"]).try_map(|mode| mode.parse::<Mode>()))]
    mode: Mode,
}

pub(super) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let mode = arguments.mode;
    let guard = arguments.target.observe().await?;
    let before = guard.state().fleet_mode;
    insist(async || guard.set_fleet_mode(mode).await).await?;
    let state = guard.state();
    let mut text = format!("mode of all processes: {mode}, before: {before}");
    if mode == Mode::Enforce && before != Mode::Enforce {
        text += "\nIds that processes without this filter created meanwhile are refused until a rebuild has read them.";
    }
    if let Err(why) = refuses(&state)
        && mode == Mode::Enforce
    {
        text += &format!("\nnothing is refused: {why}");
    }
    say(json, &text, &json!({ "mode": mode, "before": before, "state": state }))?;
    Ok(false)
}
