//! A circuit breaker: while Redis does not answer, nothing but polls is sent.
//!
//! Commands that no caller waits for any more must not pile up before a server that does not read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::driver::QUEUE;
use super::queue::BATCHES;

/// Calls given up in a row, by a time-out or by their callers, that open the breaker until a poll is answered: as many as there may
/// be batches of checks under way.
const GIVEN_UP: u32 = BATCHES as u32;
/// For how long no call must have been answered. Clients choose when to hang up: many that do so at once say nothing of Redis.
const SILENCE: Duration = Duration::from_millis(20);

/// Calls under way on a connection; further ones wait, within their deadlines.
const ROOM: usize = QUEUE / 2;
/// How the calls of a link have ended lately. Open, it lets none through.
pub(super) struct CircuitBreaker {
    origin: Instant,
    /// Calls given up since the last answer.
    given_up: AtomicU32,
    /// When the first of them was, µs since the origin.
    given_up_since: AtomicU64,
    is_open: AtomicBool,
    room: Semaphore,
    /// Notified when it opens.
    look: Arc<Notify>,
    closed: Notify,
}

impl CircuitBreaker {
    pub(super) fn new(look: Arc<Notify>) -> Self {
        Self {
            origin: Instant::now(),
            given_up: AtomicU32::new(0),
            given_up_since: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
            room: Semaphore::new(ROOM),
            look,
            closed: Notify::new(),
        }
    }

    /// Waits for room for a call and, if it may wait for that, until the breaker is closed. Returns nothing if it may not.
    pub(super) async fn enter(&self, may_wait: bool) -> Option<Call<'_>> {
        let room = self.room.acquire().await.ok()?;
        loop {
            // First, so that no answer is missed.
            let closed = self.closed.notified();
            if !self.is_open.load(Ordering::Relaxed) {
                return Some(Call { breaker: self, answered: false, _room: room });
            }
            if !may_wait {
                return None;
            }
            closed.await;
        }
    }

    pub(super) fn note_answered(&self) {
        // Read first: every answer comes by here, and mostly there is nothing to write.
        if self.given_up.load(Ordering::Relaxed) > 0 {
            self.given_up.store(0, Ordering::Relaxed);
        }
        if self.is_open.load(Ordering::Relaxed) {
            self.is_open.store(false, Ordering::Relaxed);
            self.closed.notify_waiters();
        }
    }

    fn note_given_up(&self) {
        let now = u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Before it is counted: whoever sees the count sees since when, too.
        if self.given_up.load(Ordering::Relaxed) == 0 {
            self.given_up_since.store(now, Ordering::Relaxed);
        }
        let count = self.given_up.fetch_add(1, Ordering::AcqRel) + 1;
        let since = self.given_up_since.load(Ordering::Relaxed);
        let silent = Duration::from_micros(now.saturating_sub(since)) >= SILENCE;
        if count >= GIVEN_UP && silent && !self.is_open.swap(true, Ordering::Relaxed) {
            self.look.notify_one();
        }
    }
}

/// A call that has been sent. Dropped before it is answered, it counts as given up.
pub(super) struct Call<'a> {
    breaker: &'a CircuitBreaker,
    answered: bool,
    _room: SemaphorePermit<'a>,
}

impl Call<'_> {
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.answered {
            self.breaker.note_answered();
        } else {
            self.breaker.note_given_up();
        }
    }
}
