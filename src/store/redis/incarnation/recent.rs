//! What this process has added lately, so that it can add it again.
//!
//! A Redis that restarts from an old dump, fails over or is emptied may lose acknowledged adds. Their
//! transactions may still be open, so that a rebuild's scan does not see them either. While the process
//! lives that made them, it can say them again: see `replay`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use crate::id::Digest;

/// How much longer than its transaction an add is remembered at least: a process that finds Redis's new
/// life this late still has all that was open when the old one ended.
const MARGIN: Duration = Duration::from_secs(60);

/// The adds of this process whose transactions may be open, as digests: 20 bytes each.
pub(crate) struct OwnAdds {
    /// The longest time from an add to the end of its transaction.
    reach: Duration,
    /// How long it is remembered.
    life: Duration,
    /// How many are remembered at most.
    capacity: usize,
    origin: Instant,
    books: Mutex<Books>,
    /// The incarnation of the metadata that is known to hold all of them.
    vouched: ArcSwapOption<Vec<u8>>,
    /// Whether there ever was one.
    used: AtomicBool,
}

struct Books {
    /// In the order of their acknowledgement.
    acknowledged: VecDeque<Own>,
    /// How many have left the front.
    gone: u64,
    /// Sent, and not answered yet.
    in_flight: BTreeMap<u64, Vec<Digest>>,
    tickets: u64,
    /// The secret key that the digests were made with.
    key_id: Option<u32>,
    /// When the last of those that are no longer remembered was acknowledged.
    forgotten: Option<Tenths>,
}

struct Own {
    digest: Digest,
    acknowledged: Tenths,
}

/// Tenths of a second since the process's first add could be: a `u32` of them is 13 years.
type Tenths = u32;

/// An add under way. Dropped, it is not remembered: its caller has not been told that it is in.
#[must_use]
pub(crate) struct InFlight<'a> {
    own: &'a OwnAdds,
    ticket: u64,
    key_id: u32,
}

impl OwnAdds {
    /// `handler` is how much longer than its transaction a 404 may be under way that does not know of it.
    pub(crate) fn new(reach: Duration, handler: Duration, capacity: usize) -> Self {
        let books = Books {
            acknowledged: VecDeque::new(),
            gone: 0,
            in_flight: BTreeMap::new(),
            tickets: 0,
            key_id: None,
            forgotten: None,
        };
        Self {
            reach,
            life: reach + handler.max(MARGIN),
            capacity,
            origin: Instant::now(),
            books: Mutex::new(books),
            vouched: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
        }
    }

    /// Notes an add that is about to be sent.
    pub(crate) fn begin(&self, digests: &[Digest], key_id: u32) -> InFlight<'_> {
        self.used.store(true, Ordering::SeqCst);
        let mut books = self.books();
        self.keyed(&mut books, key_id);
        books.tickets += 1;
        let ticket = books.tickets;
        books.in_flight.insert(ticket, digests.to_vec());
        InFlight { own: self, ticket, key_id }
    }

    /// Whether an incarnation of the metadata holds all adds of this process.
    pub(crate) fn are_in(&self, incarnation: &[u8]) -> bool {
        !self.used.load(Ordering::SeqCst) || self.vouched_on(incarnation)
    }

    pub(crate) fn vouched_on(&self, incarnation: &[u8]) -> bool {
        self.vouched.load().as_deref().is_some_and(|vouched| vouched == incarnation)
    }

    /// Returns the incarnation that holds all adds, or some word that is none; nothing while there is
    /// nothing to vouch for.
    pub(crate) fn vouched(&self) -> Vec<u8> {
        if !self.used.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.vouched.load().as_deref().cloned().unwrap_or_else(|| b"none".to_vec())
    }

    /// Notes that an incarnation holds all adds.
    pub(crate) fn vouch(&self, incarnation: &[u8]) {
        self.vouched.store(Some(incarnation.to_vec().into()));
    }

    /// Begins a replay under a secret key: returns what is in flight, and where the acknowledged end.
    pub(crate) fn replay(&self, key_id: u32) -> (Vec<Digest>, u64) {
        let mut books = self.books();
        self.keyed(&mut books, key_id);
        let in_flight = books.in_flight.values().flatten().copied().collect();
        (in_flight, books.gone + books.acknowledged.len() as u64)
    }

    /// Returns the next acknowledged adds from a number on, and the number to go on with.
    pub(crate) fn since(&self, number: u64, most: usize) -> (Vec<Digest>, u64) {
        let books = self.books();
        let from = number.max(books.gone);
        let skip = usize::try_from(from - books.gone).unwrap_or(usize::MAX);
        let digests: Vec<_> =
            books.acknowledged.iter().skip(skip).take(most).map(|own| own.digest).collect();
        let next = from + digests.len() as u64;
        (digests, next)
    }

    /// Whether nothing is forgotten whose transaction may have been open when the incarnation began,
    /// so long ago; else how long such transactions may stay open yet.
    pub(crate) fn complete_since(&self, age: Duration) -> Result<(), Duration> {
        let Some(forgotten) = self.books().forgotten else { return Ok(()) };
        let now = self.now();
        let ends = forgotten.saturating_add(tenths(self.reach));
        if ends < now.saturating_sub(tenths(age)) {
            return Ok(());
        }
        Err(Duration::from_millis(u64::from(ends.saturating_sub(now)) * 100))
    }

    /// Forgets what is over.
    pub(crate) fn prune(&self) {
        self.forget_over(&mut self.books());
    }

    fn forget_over(&self, books: &mut Books) {
        let life = tenths(self.life);
        let now = self.now();
        while books.acknowledged.len() > self.capacity
            || books
                .acknowledged
                .front()
                .is_some_and(|own| own.acknowledged.saturating_add(life) < now)
        {
            let Some(own) = books.acknowledged.pop_front() else { return };
            books.gone += 1;
            books.forgotten = books.forgotten.max(Some(own.acknowledged));
        }
        if books.acknowledged.len() < books.acknowledged.capacity() / 4 {
            books.acknowledged.shrink_to_fit();
        }
    }

    /// Digests of another key cannot be said again: they count as forgotten.
    fn keyed(&self, books: &mut Books, key_id: u32) {
        if books.key_id.replace(key_id).is_none_or(|known| known == key_id) {
            return;
        }
        let last = books.acknowledged.back().map(|own| own.acknowledged);
        let last = if books.in_flight.is_empty() { last } else { Some(self.now()) };
        books.forgotten = books.forgotten.max(last);
        books.gone += books.acknowledged.len() as u64;
        books.acknowledged = VecDeque::new();
    }

    /// Rounded up: an add counts as acknowledged later than it was.
    fn now(&self) -> Tenths {
        tenths(self.origin.elapsed()) + 1
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlight<'_> {
    /// Notes that Redis has acknowledged the add.
    pub(crate) fn acknowledged(self) {
        let mut books = self.own.books();
        let acknowledged = self.own.now();
        let digests = books.in_flight.remove(&self.ticket).unwrap_or_default();
        if books.key_id == Some(self.key_id) {
            let own = digests.into_iter().map(|digest| Own { digest, acknowledged });
            books.acknowledged.extend(own);
        } else {
            books.forgotten = books.forgotten.max(Some(acknowledged));
        }
        self.own.forget_over(&mut books);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.own.books().in_flight.remove(&self.ticket);
    }
}

impl fmt::Debug for OwnAdds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let books = self.books();
        f.debug_struct("OwnAdds")
            .field("acknowledged", &books.acknowledged.len())
            .field("in_flight", &books.in_flight.len())
            .finish_non_exhaustive()
    }
}

fn tenths(duration: Duration) -> Tenths {
    Tenths::try_from(duration.as_millis() / 100).unwrap_or(Tenths::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const REACH: Duration = Duration::from_secs(900);
    const HANDLER: Duration = Duration::from_secs(30);
    const KEY: u32 = 7;

    fn digests(range: std::ops::Range<u8>) -> Vec<Digest> {
        range.map(|byte| Digest::from_bytes([byte; 16])).collect()
    }

    fn all(own: &OwnAdds) -> Vec<Digest> {
        let (mut all, end) = own.replay(KEY);
        let mut at = 0;
        while at < end {
            let (some, next) = own.since(at, 2);
            all.extend(some);
            at = next;
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledged_and_in_flight_adds_are_said_again_and_failed_ones_are_not() {
        let own = OwnAdds::new(REACH, HANDLER, 100);
        assert!(own.are_in(b"any"), "there is nothing to vouch for");
        own.begin(&digests(0..3), KEY).acknowledged();
        assert!(!own.are_in(b"any"));
        drop(own.begin(&digests(3..4), KEY));
        let flying = own.begin(&digests(4..6), KEY);
        let mut said = all(&own);
        said.sort_by_key(|digest| *digest.as_bytes());
        assert_eq!(said, [digests(0..3), digests(4..6)].concat());
        drop(flying);
        own.vouch(b"one");
        assert!(own.are_in(b"one") && !own.are_in(b"two"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_add_is_remembered_for_longer_than_its_transaction_and_then_forgotten() {
        let own = OwnAdds::new(REACH, HANDLER, 100);
        own.begin(&digests(0..1), KEY).acknowledged();
        advance(REACH + Duration::from_secs(30)).await;
        own.prune();
        assert_eq!(all(&own).len(), 1);
        advance(Duration::from_secs(60)).await;
        own.prune();
        assert_eq!(all(&own).len(), 0);
        assert_eq!(own.complete_since(Duration::from_secs(30)), Ok(()), "it was over by then");
        let long_ago = own.complete_since(Duration::from_secs(120));
        assert_eq!(long_ago, Err(Duration::ZERO), "it was open then, and is over now");
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_it_holds_makes_it_incomplete_until_their_transactions_end() {
        let own = OwnAdds::new(REACH, HANDLER, 3);
        own.begin(&digests(0..4), KEY).acknowledged();
        assert_eq!(all(&own), digests(1..4), "the oldest went");
        let open = own.complete_since(Duration::ZERO).unwrap_err();
        assert!(open >= REACH && open < REACH + Duration::from_secs(1), "{open:?}");
        advance(REACH + Duration::from_secs(1)).await;
        assert_eq!(own.complete_since(Duration::ZERO), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn another_secret_key_makes_it_incomplete() {
        let own = OwnAdds::new(REACH, HANDLER, 100);
        own.begin(&digests(0..1), KEY).acknowledged();
        let flying = own.begin(&digests(1..2), KEY);
        assert_eq!(own.complete_since(Duration::ZERO), Ok(()));
        advance(Duration::from_secs(100)).await;
        let (_, end) = own.replay(KEY + 1);
        assert_eq!(own.since(0, 10), (vec![], end));
        flying.acknowledged();
        assert_eq!(own.since(0, 10), (vec![], end), "its digest is of the old key");
        assert!(own.complete_since(Duration::ZERO).unwrap_err() >= REACH);
    }
}
