//! A guard that joins a filter for one change of it.

use std::future::Future;
use std::time::Duration;

use bloom_guard::inspect::{Filter, InspectError};
use bloom_guard::{BloomGuard, FleetError, PathPattern};
use tokio::time::sleep;

use crate::outcome::Failure;
use crate::target::{Target, secret_key};

/// How often a change is tried, and with which pause: a connection may take some time.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// Changes a filter that was read.
pub(crate) async fn change<F>(
    target: &Target,
    filter: &Filter,
    change: impl Fn(BloomGuard) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), FleetError>>,
{
    // With a drawn key and none in Redis, a guard would make another filter.
    if !filter.has_key() {
        return Err(InspectError::NoKey.into());
    }
    let guard = guard(target, filter.shards.len())?;
    // Where a part is away, a second try has no more of it.
    let tries = if filter.shards.iter().any(|shard| shard.away.is_some()) { 1 } else { TRIES };
    for _ in 1..tries {
        match change(guard.clone()).await {
            Ok(()) => return Ok(()),
            Err(_) => sleep(PAUSE).await,
        }
    }
    Ok(change(guard).await?)
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
