//! A circuit breaker: while Redis does not answer, nothing but polls is sent.
//!
//! Commands that no caller waits for any more must not pile up before a server that does not read them.

use std::mem::{replace, take};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::driver::QUEUE;
use super::queue::BATCHES;

/// Calls given up in a row, by a time-out or by their callers, that open the breaker until a poll is answered: as many as there may
/// be batches of checks under way.
const GIVEN_UP: usize = BATCHES;
/// For how long no call must have been answered. Clients choose when to hang up: many that do so at once say nothing of Redis.
const SILENCE: Duration = Duration::from_millis(20);

/// Calls under way on a connection; further ones wait, within their deadlines.
const ROOM: usize = QUEUE / 2;

/// How the calls of a link have ended lately. Open, it lets none through.
pub(super) struct CircuitBreaker {
    silence: Mutex<Silence>,
    room: Semaphore,
    /// Notified when it opens.
    look: Arc<Notify>,
    closed: Notify,
}

/// What has happened since the last answer.
#[derive(Default)]
struct Silence {
    given_up: usize,
    /// When the first call was given up.
    since: Option<Instant>,
    is_open: bool,
}

impl CircuitBreaker {
    pub(super) fn new(look: Arc<Notify>) -> Self {
        let room = Semaphore::new(ROOM);
        Self { silence: Mutex::default(), room, look, closed: Notify::new() }
    }

    /// Waits for room for a call and, if it may wait for that, until the breaker is closed. Returns nothing if it may not.
    pub(super) async fn enter(&self, may_wait: bool) -> Option<Call<'_>> {
        let room = self.room.acquire().await.ok()?;
        loop {
            // First, so that no answer is missed.
            let closed = self.closed.notified();
            if !self.silence.lock().is_open {
                return Some(Call { breaker: self, answered: false, _room: room });
            }
            if !may_wait {
                return None;
            }
            closed.await;
        }
    }

    pub(super) fn note_answered(&self) {
        if take(&mut *self.silence.lock()).is_open {
            self.closed.notify_waiters();
        }
    }

    fn note_given_up(&self) {
        let mut silence = self.silence.lock();
        silence.given_up += 1;
        let since = *silence.since.get_or_insert_with(Instant::now);
        let is_over = silence.given_up >= GIVEN_UP && since.elapsed() >= SILENCE;
        if is_over && !replace(&mut silence.is_open, true) {
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
