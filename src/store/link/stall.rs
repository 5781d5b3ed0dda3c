//! Notices that Redis does not answer any more, so that nothing more is sent to it.
//!
//! Commands that no caller waits for any more must not pile up before a server that does not read them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// So many calls given up in a row, by a time-out or by their callers, stall a connection: nothing more is
/// sent until a poll is answered. A poll that is not answered within its half second ends the connection.
const STALL: u32 = 32;
/// They must have been given up for so long without an answer to any other call. Clients choose when to
/// hang up: many that do so at once, before any server could answer, say nothing of this one.
const SILENCE: Duration = Duration::from_millis(20);

const NEVER: u64 = u64::MAX;

/// How the calls of a link have ended lately.
#[derive(Debug)]
pub(crate) struct Stall {
    origin: Instant,
    /// Calls given up since the last answer.
    given_up: AtomicU32,
    /// When the first of them was, in microseconds since the origin; [`NEVER`] before that is known.
    given_up_since: AtomicU64,
    is_stalled: AtomicBool,
    stalled: Notify,
    answered: Notify,
    /// So many given up are a stall, however short the time.
    surfeit: u32,
}

impl Stall {
    pub(crate) fn new(surfeit: u32) -> Self {
        Self {
            origin: Instant::now(),
            given_up: AtomicU32::new(0),
            given_up_since: AtomicU64::new(NEVER),
            is_stalled: AtomicBool::new(false),
            stalled: Notify::new(),
            answered: Notify::new(),
            surfeit,
        }
    }

    /// Whether the connection is stalled.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Returns what ends when a stall begins.
    pub(crate) fn begins(&self) -> Notified<'_> {
        self.stalled.notified()
    }

    /// Waits until there is no stall.
    pub(crate) async fn ends(&self) {
        loop {
            // Listening comes first: an answer between the two is not missed.
            let answered = self.answered.notified();
            if !self.is_stalled() {
                return;
            }
            answered.await;
        }
    }

    /// A call is about to be sent that so many wait for.
    pub(crate) fn call(&self, callers: usize) -> Call<'_> {
        let callers = u32::try_from(callers).unwrap_or(u32::MAX);
        Call { stall: self, callers, answered: false }
    }

    /// A call, or a poll, was answered.
    pub(crate) fn note_answered(&self) {
        // Read first: every answer comes by here, and mostly there is nothing to write.
        if self.given_up.load(Ordering::Relaxed) > 0 {
            self.given_up_since.store(NEVER, Ordering::Relaxed);
            self.given_up.store(0, Ordering::Relaxed);
        }
        if self.is_stalled() {
            self.is_stalled.store(false, Ordering::Relaxed);
            self.answered.notify_waiters();
        }
    }

    /// A call was given up that so many waited for.
    fn note_given_up(&self, callers: u32) {
        let now = u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let before = self.given_up.fetch_add(callers, Ordering::Relaxed);
        let count = before.saturating_add(callers);
        if before == 0 {
            self.given_up_since.store(now, Ordering::Relaxed);
        }
        let since = self.given_up_since.load(Ordering::Relaxed);
        let silent = Duration::from_micros(now.saturating_sub(since)) >= SILENCE;
        if (count >= STALL && silent || count >= self.surfeit)
            && !self.is_stalled.swap(true, Ordering::Relaxed)
        {
            self.stalled.notify_one();
        }
    }
}

/// A call that has been sent. Dropped before it is answered, it counts as given up.
pub(crate) struct Call<'a> {
    stall: &'a Stall,
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
            self.stall.note_answered();
        } else {
            self.stall.note_given_up(self.callers);
        }
    }
}
