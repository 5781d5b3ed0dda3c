//! `watch`: a line a second.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::outcome::{Ending, Failure, Outcome, say};
use crate::status::{Standing, name};
use crate::target::Target;
use crate::words;

/// Says how a filter stands, a line a second, until it is interrupted. Only reads. A Redis that goes away is waited for.
///
/// Exit status 1: it refused nothing when it was looked at last.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Ends after so many lines.
    #[arg(long, value_name = "LINES")]
    count: Option<u64>,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    // What cannot be found at first is a wrong name or URL.
    let mut filter = Some(arguments.target.read().await?);
    let (mut lines, mut refuses) = (0, false);
    while arguments.count.is_none_or(|count| lines < count) {
        if lines > 0 {
            sleep(Duration::from_secs(1)).await;
            filter = match arguments.target.read_again(filter).await {
                Ok(filter) => Some(filter),
                Err(Failure(sentence)) => {
                    say(json, &sentence, &json!({ "error": sentence }))?;
                    None
                }
            };
        }
        lines += 1;
        if let Some(filter) = &filter {
            let standing = Standing::of(filter);
            refuses = standing.refuses();
            say(json, &line(&standing), &standing.value())?;
        } else {
            refuses = false;
        }
    }
    Ok(Ending::wrong_if(!refuses))
}

fn line(standing: &Standing) -> String {
    let mut refuses = match (standing.refuses(), standing.is_whole()) {
        (_, true) => "refuses".to_owned(),
        (true, false) => format!("refuses in {} of {} shards", standing.refusing, standing.all),
        (false, false) => "refuses nothing".to_owned(),
    };
    refuses.extend(standing.refuses_checks.map(|doubt| format!(": {doubt}")));
    let mut parts = vec![refuses];
    parts.push(match (standing.oldest, standing.doubt) {
        (Some(oldest), _) => format!(
            "generation {oldest}, {} old, {} ids",
            words::span_ms(standing.age_ms),
            words::number(standing.items)
        ),
        (None, Some(doubt)) => doubt.to_string(),
        (None, None) => "no filter".to_owned(),
    });
    if standing.all > 1 {
        parts.push(format!("{} of {} shards", standing.live, standing.all));
    }
    parts.push(format!("mode {}", name(standing.mode)));
    parts.extend(standing.settling_words().map(|rest| format!("settles {rest}")));
    if standing.rebuilding_ms.is_some() {
        let by = standing.rebuilder().map_or_else(String::new, |process| format!(" by {process}"));
        parts.push(format!("is rebuilt{by}"));
    }
    parts.push(format!("polled {} ago", words::span_ms(standing.polled_ago_ms)));
    parts.join("; ")
}
