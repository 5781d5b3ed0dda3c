//! The fence: one small question to Redis by which all ids that wait, and that this process's copy lacks, are absent.
//!
//! A copy holds all that was inserted up to its position. What came since is in the record of recent inserts, beyond that position.
//! So the record's entries, the metadata and the header, asked for after the requests have arrived, bring the copy up to the
//! last insert, and what it lacks then is absent, on Redis's word. In Raft this is a read index (Ongaro's dissertation, §6.4), with the
//! filter as the state machine. Where anything is odd, ids are asked for one by one.

use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::filter::Membership;
use crate::id::KeyedDigest;
use crate::nulls::scope::Scope;
use crate::store::redis::copy::FilterCopy;
use crate::store::{Lookup, NullClaim};
use crate::verdict::{Doubt, Proof, Verdict};

/// While none is under way, a fence leaves when as many ids wait, or some this long after the one before has ended; at the latest
/// after this long.
const ENOUGH: usize = 8;
const PAUSE: Duration = Duration::from_micros(250);
const LONGEST: Duration = Duration::from_millis(1);
/// While some are, another leaves this part of a check's deadline after the last one: as many are under way at the most. So a Redis
/// that is far away answers in time, too.
pub(super) const PARTS: u32 = 16;

/// What waits for a shard's next fence.
pub(crate) struct Fence {
    next: Mutex<Next>,
    /// Somebody waits, or enough do.
    waits: Notify,
    /// The most that may wait, for any fence.
    most: usize,
    /// How long one that waits for others to end waits at the most.
    pause: Duration,
}

struct Next {
    round: Arc<Round>,
    waiting: usize,
    /// How many wait for one that is under way.
    asked: usize,
    /// How many it has to be to leave at once.
    enough: usize,
    /// When the last one left, and when one ended last.
    left: Instant,
    ended: Instant,
    under_way: u32,
    /// An id that waits, or has.
    sample: Option<KeyedDigest>,
    /// How many ids were answered for.
    answered: u64,
}

/// A fence, as those see it that wait for it.
#[derive(Default)]
pub(crate) struct Round {
    outcome: OnceLock<Proven>,
    ended: Notify,
}

/// The copy that a fence has brought up to the last insert: what it lacks is absent. Nothing where the fence proves nothing.
pub(super) type Proven = Option<Arc<FilterCopy>>;

impl Fence {
    /// Returns one for which so many may wait, by a check's deadline.
    pub(crate) fn new(most: u32, deadline: Duration) -> Self {
        let now = Instant::now();
        let next = Next {
            round: Arc::default(),
            waiting: 0,
            asked: 0,
            enough: ENOUGH,
            left: now,
            ended: now,
            under_way: 0,
            sample: None,
            answered: 0,
        };
        let (next, waits, most) = (Mutex::new(next), Notify::new(), most as usize);
        Self { next, waits, most, pause: deadline / PARTS }
    }

    /// Has an id wait for the next one that leaves. It never joins one that has left.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub(crate) fn join(&self, id: KeyedDigest) -> Result<Arc<Round>, Doubt> {
        let mut next = self.next.lock();
        if next.waiting + next.asked >= self.most {
            return Err(Doubt::Overloaded);
        }
        next.waiting += 1;
        let round = Arc::clone(&next.round);
        next.sample.get_or_insert(id);
        let wakes = next.waiting == 1 || next.waiting == next.enough;
        drop(next);
        if wakes {
            self.waits.notify_one();
        }
        Ok(round)
    }

    /// Takes an id that has waited for one since this was asked last.
    pub(crate) fn refused(&self) -> Option<KeyedDigest> {
        self.next.lock().sample.take()
    }

    pub(crate) fn answered(&self) -> u64 {
        self.next.lock().answered
    }

    /// Whether none has left for a while, and nobody waits.
    pub(crate) fn rests(&self) -> bool {
        let next = self.next.lock();
        next.waiting == 0 && next.under_way == 0 && next.ended.elapsed() > LONGEST
    }

    /// Waits until one may leave.
    pub(super) async fn leaves(&self) -> Leaving<'_> {
        loop {
            let until = {
                let mut next = self.next.lock();
                if next.may_leave(self.pause) {
                    next.left = Instant::now();
                    next.under_way += 1;
                    let waiting = take(&mut next.waiting);
                    next.asked += waiting;
                    let round = take(&mut next.round);
                    return Leaving { fence: self, round, waiting };
                }
                match next.under_way {
                    _ if next.waiting == 0 => None,
                    0 => Some(next.ended + LONGEST),
                    PARTS.. => None,
                    _ => Some(next.left + self.pause),
                }
            };
            let changes = self.waits.notified();
            match until {
                None => changes.await,
                Some(until) => tokio::select! {
                    () = changes => {}
                    () = sleep_until(until) => {}
                },
            }
        }
    }
}

impl Next {
    fn may_leave(&self, pause: Duration) -> bool {
        match self.under_way {
            _ if self.waiting == 0 => false,
            // Tokio's timers are as coarse as that.
            0 if pause < LONGEST => true,
            0 => self.waiting >= self.enough || self.ended.elapsed() >= PAUSE,
            under_way => under_way < PARTS && self.left.elapsed() >= pause,
        }
    }
}

/// One that has left. However it ends, those that wait are told.
pub(super) struct Leaving<'a> {
    fence: &'a Fence,
    round: Arc<Round>,
    /// How many wait for it.
    pub(super) waiting: usize,
}

impl Leaving<'_> {
    pub(super) fn ends(&self, proven: Proven) {
        self.round.outcome.set(proven).ok();
        self.round.ended.notify_waiters();
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.ends(None);
        let is_proven = matches!(self.round.outcome.get(), Some(Some(_)));
        let mut next = self.fence.next.lock();
        next.answered += if is_proven { self.waiting as u64 } else { 0 };
        next.under_way -= 1;
        next.asked -= self.waiting;
        next.ended = Instant::now();
        // Most of those whom this one has answered ask for another id soon.
        let all = self.waiting + next.waiting;
        next.enough = ENOUGH.max(all - all / 8);
        drop(next);
        self.fence.waits.notify_one();
    }
}

impl Round {
    /// Waits until it has ended.
    pub(super) async fn proven(&self) -> Option<&FilterCopy> {
        let mut ended = pin!(self.ended.notified());
        // Listening comes first.
        ended.as_mut().enable();
        if self.outcome.get().is_none() {
            ended.await;
        }
        self.outcome.get()?.as_deref()
    }
}

/// What a proven copy says of an id with this digest; nothing of one by another key.
pub(super) fn said(copy: &FilterCopy, made: &KeyedDigest) -> Option<Lookup> {
    // It teaches no null: the database may be read long after it.
    let claim = |generation| NullClaim { asked_us: 0, generation };
    let (verdict, claim) = match copy.look_up(made)? {
        Membership::Never => (Verdict::Absent(Proof::Filter), claim(Some(copy.header.generation))),
        Membership::Possible => (Verdict::Present, claim(None)),
    };
    Some(Lookup { verdict, scope: Scope::Everyone, claim })
}

#[cfg(test)]
mod tests;
