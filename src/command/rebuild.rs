//! `rebuild`: asks the processes of a filter to rebuild it.

use serde_json::json;

use super::outcome::{Outcome, say};
use super::target::{Target, insist};

pub(super) async fn run(target: &Target, json: bool) -> Outcome {
    let guard = target.observe().await?;
    insist(async || guard.request_rebuild().await).await?;
    let text = "a rebuild is asked for: `status` tells when it is under way, and when the new filter is live";
    say(json, text, &json!({ "asked": true }))?;
    Ok(false)
}
