//! How often an insert is tried, and how long.

use std::time::Duration;

use tokio::time::sleep;

use super::refusal::Consequences;
use crate::error::StoreError;
use crate::refusal::Retry;

/// How long an attempt may wait for each round trip, or for a connection, and how many attempts there are.
pub(crate) const ATTEMPT: Duration = Duration::from_millis(250);
const ATTEMPTS: u32 = 3;
/// How long an attempt waits after a refusal. Two such waits end within the deadlines of the three attempts.
const REFUSED_WAIT: Duration = Duration::from_millis(150);
/// The most ids inserted by one attempt, which keeps a script near a millisecond.
pub(crate) const IDS_PER_CALL: usize = 128;

/// Attempts at an insert. It may be repeated, so that an unknown outcome does no harm.
#[derive(Default)]
pub(crate) struct Attempts {
    failed: u32,
}

impl Attempts {
    /// Waits for the next attempt, or returns the error of the one before if another is not worth it.
    pub(crate) async fn next_after(&mut self, error: StoreError) -> Result<(), StoreError> {
        self.failed += 1;
        let wait = match &error {
            StoreError::NoAnswer { .. } => Some(Duration::ZERO),
            StoreError::Refused { reason, .. } => {
                (Consequences::read(reason).retry != Retry::Never).then_some(REFUSED_WAIT)
            }
            _ => None,
        };
        match wait {
            Some(wait) if self.failed < ATTEMPTS => sleep(wait).await,
            _ => return Err(error),
        }
        Ok(())
    }
}
