//! When everything works again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep};

use crate::site::{ABSENT, NEW, People};

/// How long it may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// After this it is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until everything works; returns for how long it did not.
///
/// # Errors
///
/// What does not work in the end.
pub(crate) async fn recovered(people: &People) -> Result<Duration, String> {
    let begun = Instant::now();
    loop {
        match works(people).await {
            Ok(()) => return Ok(begun.elapsed()),
            Err(what) if begun.elapsed() > PATIENCE => return Err(what),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Every instance refuses what is absent and serves what is there; a record can be created through
/// each and is served by all at once.
async fn works(people: &People) -> Result<(), String> {
    static FRESH: AtomicU64 = AtomicU64::new(1 << 30);
    let fresh = || FRESH.fetch_add(1, Ordering::Relaxed);
    let instances = 0..people.guards.len();
    for instance in instances.clone() {
        // One refusal a second is let through for a look, and one in a thousand ids is a false positive.
        let mut refused = false;
        for _ in 0..3 {
            let answer = people.get(instance, ABSENT + fresh()).await;
            refused |= answer.is_404() && !answer.passed();
        }
        if !refused {
            return Err(format!("{instance} refuses none: {:?}", people.guards[instance].state()));
        }
        serves(people, instance, 7).await?;
    }
    for instance in instances.clone() {
        let id = NEW + fresh();
        if !people.create(instance, id).await {
            return Err(format!(
                "{instance} creates nothing: {:?}",
                people.guards[instance].state()
            ));
        }
        for instance in instances.clone() {
            serves(people, instance, id).await?;
        }
    }
    Ok(())
}

async fn serves(people: &People, instance: usize, id: u64) -> Result<(), String> {
    let answer = people.get(instance, id).await;
    if answer.is_404() {
        let what = format!("{id} by instance {instance}, asked whether it works: {answer:?}");
        people.account.false_404(what);
    }
    if answer.status == StatusCode::OK { Ok(()) } else { Err(format!("{instance}: {answer:?}")) }
}
