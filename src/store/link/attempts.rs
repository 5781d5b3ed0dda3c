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

/// Repeats an insert until it succeeds, or another attempt is not worth it. Its outcome may be unknown: repeating does no harm.
pub(crate) async fn attempts<T, F>(insert: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for _ in 1..ATTEMPTS {
        match insert().await {
            Err(StoreError::NoAnswer { .. }) => {}
            Err(StoreError::Refused { reason, .. })
                if Consequences::read(&reason).retry != Retry::Never =>
            {
                sleep(REFUSED_WAIT).await;
            }
            ended => return ended,
        }
    }
    insert().await
}
