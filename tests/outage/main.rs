//! The guard is never the outage: it waits for no longer, holds no more and refuses no more than it says.

mod away;
mod copied;
mod policies;
mod price;
mod stall;

use std::time::Duration;

/// How long an outage lasts.
fn seconds() -> Duration {
    let seconds = std::env::var("OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}
