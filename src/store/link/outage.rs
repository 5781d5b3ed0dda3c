//! What the links of a node tell each other: that Redis has changed. And one line in the log when a guard loses Redis, and
//! one when it has all its connections again; or one where Redis has changed.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Which of a guard's connections there are not.
#[derive(Default)]
pub(crate) struct Outage {
    down: Mutex<Down>,
    /// How often there was something to look at: what one link has found, the others may find, too.
    found: AtomicU64,
    told: Notify,
    /// Whether the link for checks has a connection, and looks once a second at what all have learnt.
    checks_look: AtomicBool,
}

#[derive(Default)]
struct Down {
    purposes: Vec<&'static str>,
    /// Since when any has been down.
    since: Option<Instant>,
    /// When one was left last.
    left: Option<Instant>,
}

/// What one link of a node finds, the others find within this.
const TOGETHER: Duration = Duration::from_secs(3);

impl Outage {
    /// Notes that a connection was lost, or could not be made.
    pub(super) fn lost(&self, redis: &dyn fmt::Debug, purpose: &'static str, reason: &str) {
        let mut down = self.down.lock();
        if !down.purposes.contains(&purpose) {
            down.purposes.push(purpose);
        }
        if down.since.is_some() {
            return;
        }
        down.since = Some(Instant::now());
        tracing::warn!(
            ?redis,
            purpose,
            reason,
            "there is no connection to redis: of what is there, ids found lately or copied pass, other requests share the lane or do \
             as on_unknown says, and inserts fail. The guard goes on trying. Unless the reason says more, see that redis runs, can be \
             reached from here, and takes the url's credentials"
        );
    }

    /// Notes that a connection is left for a new one, because what Redis holds is not what it held. That is no outage,
    /// unless the new one cannot be made.
    pub(super) fn left(&self, redis: &dyn fmt::Debug, reason: &str) {
        self.tell();
        let now = Instant::now();
        let before = self.down.lock().left.replace(now);
        if before.is_none_or(|before| now - before > TOGETHER) {
            tracing::warn!(
                ?redis,
                reason,
                "redis is there, and is not as it was: the guard connects anew, and refuses nothing by a filter that may \
                 lack ids"
            );
        }
    }

    /// Notes that a connection is there.
    pub(super) fn made(&self, redis: &dyn fmt::Debug, purpose: &'static str) {
        let mut down = self.down.lock();
        down.purposes.retain(|other| *other != purpose);
        if down.purposes.is_empty()
            && let Some(since) = down.since.take()
        {
            tracing::info!(?redis, lost_for = ?since.elapsed(), "connected to redis again");
        }
    }

    /// Notes whether the link for checks has a connection. While it has none, each link looks for itself, from now on.
    pub(super) fn set_checks_look(&self, look: bool) {
        if self.checks_look.swap(look, Ordering::SeqCst) && !look {
            self.tell();
        }
    }

    pub(super) fn checks_look(&self) -> bool {
        self.checks_look.load(Ordering::SeqCst)
    }

    /// Has each link look now.
    pub(super) fn tell(&self) {
        self.found.fetch_add(1, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// Returns how often there was something to look at.
    pub(super) fn found(&self) -> u64 {
        self.found.load(Ordering::SeqCst)
    }

    /// Waits until there is more than was seen.
    pub(super) async fn another(&self, seen: &mut u64) {
        loop {
            // Listening comes first.
            let told = self.told.notified();
            let found = self.found();
            if found != *seen {
                *seen = found;
                return;
            }
            told.await;
        }
    }
}
