//! A circuit breaker: while Redis does not answer, nothing but polls is sent.
//!
//! Commands that no caller waits for any more must not pile up before a server that does not read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::driver::QUEUE;

/// Calls given up in a row, by a time-out or by their callers, that open the breaker until a poll is answered.
const GIVEN_UP: u32 = 32;
/// For how long no call must have been answered. Clients choose when to hang up: many that do so at once say nothing of Redis.
const SILENCE: Duration = Duration::from_millis(20);

/// Calls under way on a connection; further ones wait, within their deadlines.
pub(super) const ROOM: usize = QUEUE / 2;
/// Calls given up in a row that open the breaker at once. No more than these and [`ROOM`] pile up.
const SURFEIT: u32 = ROOM as u32;

const NEVER: u64 = u64::MAX;

/// How the calls of a link have ended lately. Open, it lets none through.
pub(crate) struct CircuitBreaker {
    origin: Instant,
    /// Calls given up since the last answer.
    given_up: AtomicU32,
    /// When the first of them was, µs since the origin; [`NEVER`] before that is known.
    given_up_since: AtomicU64,
    is_open: AtomicBool,
    /// Notified when it opens.
    look: Arc<Notify>,
    closed: Notify,
}

impl CircuitBreaker {
    pub(crate) fn new(look: Arc<Notify>) -> Self {
        Self {
            origin: Instant::now(),
            given_up: AtomicU32::new(0),
            given_up_since: AtomicU64::new(NEVER),
            is_open: AtomicBool::new(false),
            look,
            closed: Notify::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(crate) async fn closes(&self) {
        loop {
            // Listening comes first: an answer between the two is not missed.
            let closed = self.closed.notified();
            if !self.is_open() {
                return;
            }
            closed.await;
        }
    }

    pub(crate) fn call(&self, callers: usize) -> Call<'_> {
        let callers = u32::try_from(callers).unwrap_or(u32::MAX);
        Call { breaker: self, callers, answered: false }
    }

    pub(crate) fn note_answered(&self) {
        // Read first: every answer comes by here, and mostly there is nothing to write.
        if self.given_up.load(Ordering::Relaxed) > 0 {
            self.given_up_since.store(NEVER, Ordering::Relaxed);
            self.given_up.store(0, Ordering::Relaxed);
        }
        if self.is_open() {
            self.is_open.store(false, Ordering::Relaxed);
            self.closed.notify_waiters();
        }
    }

    fn note_given_up(&self, callers: u32) {
        let now = u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let before = self.given_up.fetch_add(callers, Ordering::Relaxed);
        let count = before.saturating_add(callers);
        if before == 0 {
            self.given_up_since.store(now, Ordering::Relaxed);
        }
        let since = self.given_up_since.load(Ordering::Relaxed);
        let silent = Duration::from_micros(now.saturating_sub(since)) >= SILENCE;
        if (count >= GIVEN_UP && silent || count >= SURFEIT)
            && !self.is_open.swap(true, Ordering::Relaxed)
        {
            self.look.notify_one();
        }
    }
}

/// A call that has been sent. Dropped before it is answered, it counts as given up.
pub(crate) struct Call<'a> {
    breaker: &'a CircuitBreaker,
    callers: u32,
    answered: bool,
}

impl Call<'_> {
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.answered {
            self.breaker.note_answered();
        } else {
            self.breaker.note_given_up(self.callers);
        }
    }
}
