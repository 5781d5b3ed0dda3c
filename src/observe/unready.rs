//! One line in the log when a guard has no filter that answers for a while, whatever the reason, and one when it has one again.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::state::GuardState;

/// A failover is over within this, and a small rebuild.
const LONG: Duration = Duration::from_secs(10);

/// Since when a guard is not ready, and whether the log has it.
#[derive(Default)]
pub(crate) struct Unready {
    since: Option<Instant>,
    is_told: bool,
}

impl Unready {
    /// Notes how the guard of a filter fares.
    pub(crate) fn note(&mut self, filter: &str, state: &GuardState) {
        if state.is_ready() {
            let since = self.since.take();
            if let (true, Some(since)) = (mem::take(&mut self.is_told), since) {
                tracing::info!(parent: None, filter, lasted = ?since.elapsed(), "the filter answers again");
            }
            return;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= LONG && !mem::replace(&mut self.is_told, true) {
            tracing::warn!(
                parent: None,
                filter,
                trouble = state.trouble.as_deref(),
                "the filter, or one of its shards, has not answered for ten seconds, and refuses nothing"
            );
        }
    }
}
