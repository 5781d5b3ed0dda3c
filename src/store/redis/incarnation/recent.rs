//! The ids that this process inserted lately, so that it can insert them again.
//!
//! A Redis that restarts from an old dump, fails over or is emptied may lose acknowledged inserts, while their transactions are open
//! and no scan sees them. So the process that made them replays them: see `replay`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::id::Digest;
use crate::settings::Settings;

/// How much longer than its transaction an insert is remembered, at least: so late a process may find a new incarnation.
const MARGIN: Duration = Duration::from_secs(60);

/// The inserts of this process whose transactions may be open.
pub(crate) struct RecentInserts {
    /// The longest time from an insert to the end of its transaction.
    reach: Duration,
    /// The longest time of a request, and how far behind the database it reads may be.
    handler: Duration,
    capacity: usize,
    books: Mutex<Books>,
    /// The incarnation that is known to hold all inserts.
    held_by: ArcSwapOption<Vec<u8>>,
    used: AtomicBool,
}

#[derive(Default)]
struct Books {
    /// Digests and when they were acknowledged, in that order.
    acknowledged: VecDeque<(Digest, Instant)>,
    gone: u64,
    /// The replay to the last incarnation that was met.
    replay: Option<(Vec<u8>, Replay)>,
    /// The secret key that the digests were made with.
    key_id: Option<u32>,
    /// When the last forgotten insert was acknowledged.
    forgotten: Option<Instant>,
}

/// The inserts that an incarnation may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replay {
    /// From which insert on, by number, and up to which.
    pub(crate) next: u64,
    pub(crate) end: u64,
    /// When the last of their transactions is over, and no handler has read the database as it was before; none without inserts.
    over: Option<Instant>,
}

impl RecentInserts {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            reach: settings.longest_transaction,
            handler: settings.nulls.handler_time,
            capacity: usize::try_from(settings.recent_ids).unwrap_or(usize::MAX),
            books: Mutex::default(),
            held_by: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
        }
    }

    pub(crate) fn acknowledged(&self, digests: &[Digest], key_id: u32) {
        self.used.store(true, Ordering::SeqCst);
        let mut books = self.books.lock();
        let at = Instant::now();
        if *books.key_id.get_or_insert(key_id) == key_id {
            books.acknowledged.extend(digests.iter().map(|digest| (*digest, at)));
        } else {
            // Digests of another key cannot be replayed.
            books.forgotten = books.forgotten.max(Some(at));
        }
        self.forget_over(&mut books);
    }

    /// Whether an incarnation holds all inserts of this process, or there are none.
    pub(crate) fn are_in(&self, incarnation: &[u8]) -> bool {
        !self.used.load(Ordering::SeqCst) || self.are_known_in(incarnation)
    }

    /// Whether they were replayed to an incarnation.
    pub(crate) fn are_known_in(&self, incarnation: &[u8]) -> bool {
        self.held_by.load().as_deref().is_some_and(|holder| holder == incarnation)
    }

    /// Returns the incarnation that holds all inserts, `none` if none does; empty without inserts.
    pub(crate) fn held_by(&self) -> Vec<u8> {
        if !self.used.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.held_by.load().as_deref().cloned().unwrap_or_else(|| b"none".to_vec())
    }

    pub(crate) fn note_held_by(&self, incarnation: &[u8]) {
        self.held_by.store(Some(incarnation.to_vec().into()));
    }

    /// Begins the replay to an incarnation, or takes it up again. Inserts acknowledged after its beginning need none.
    pub(crate) fn begin_replay(&self, incarnation: &[u8], key_id: u32) -> Replay {
        let mut books = self.books.lock();
        if books.key_id.replace(key_id).is_some_and(|known| known != key_id) {
            // Digests of another key cannot be replayed: they count as forgotten.
            let last = books.acknowledged.back().map(|(_, at)| *at);
            books.forgotten = books.forgotten.max(last);
            books.gone += books.acknowledged.len() as u64;
            books.acknowledged = VecDeque::new();
        }
        if let Some((of, replay)) = &books.replay
            && of == incarnation
        {
            return *replay;
        }
        let last = books.acknowledged.back();
        let replay = Replay {
            next: books.gone,
            end: books.gone + books.acknowledged.len() as u64,
            over: last.map(|(_, at)| *at + self.reach + self.handler),
        };
        books.replay = Some((incarnation.to_vec(), replay));
        replay
    }

    /// Notes that an incarnation holds what comes before a number.
    pub(crate) fn replayed(&self, incarnation: &[u8], next: u64) {
        if let Some((of, replay)) = &mut self.books.lock().replay
            && of == incarnation
        {
            replay.next = next;
        }
    }

    /// Returns acknowledged inserts from a number on, and the number to go on with.
    pub(crate) fn since(&self, number: u64, most: usize) -> (Vec<Digest>, u64) {
        let books = self.books.lock();
        let from = number.max(books.gone);
        let skip = usize::try_from(from - books.gone).unwrap_or(usize::MAX);
        let rest = books.acknowledged.iter().skip(skip);
        let digests: Vec<_> = rest.take(most).map(|(digest, _)| *digest).collect();
        let next = from + digests.len() as u64;
        (digests, next)
    }

    /// Fails if an insert is forgotten whose transaction was open when a handler, under way as the incarnation began `age` ago, may
    /// have read the database; with how long such transactions may stay open.
    pub(crate) fn complete_since(&self, age: Duration) -> Result<(), Duration> {
        let Some(forgotten) = self.books.lock().forgotten else { return Ok(()) };
        let ends = forgotten + self.reach;
        let now = Instant::now();
        if ends + self.handler + age < now { Ok(()) } else { Err(ends.duration_since(now)) }
    }

    pub(crate) fn prune(&self) {
        self.forget_over(&mut self.books.lock());
    }

    fn forget_over(&self, books: &mut Books) {
        let life = self.reach + self.handler.max(MARGIN);
        let now = Instant::now();
        while let Some(oldest) = books.acknowledged.front().map(|(_, at)| *at)
            && (books.acknowledged.len() > self.capacity || oldest + life < now)
        {
            books.acknowledged.pop_front();
            books.gone += 1;
            books.forgotten = books.forgotten.max(Some(oldest));
        }
        if books.acknowledged.len() < books.acknowledged.capacity() / 4 {
            books.acknowledged.shrink_to_fit();
        }
    }
}

impl Replay {
    /// Whether the transactions of all its inserts were over so long ago, and before any handler then under way read the database.
    /// A rebuild that begins later reads what became of them, and nothing waits for the replay.
    pub(crate) fn was_over(&self, ago: Duration) -> bool {
        self.over.is_none_or(|over| over + ago < Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::nulls::rules::NegativeCaching;

    const REACH: Duration = Duration::from_secs(900);
    const HANDLER: Duration = Duration::from_secs(30);
    const KEY: u32 = 7;

    fn recent(recent_ids: u64) -> RecentInserts {
        RecentInserts::new(&Settings {
            longest_transaction: REACH,
            nulls: NegativeCaching::new().handler_time(HANDLER),
            recent_ids,
            ..Settings::new("users".into())
        })
    }

    fn digests(range: std::ops::Range<u8>) -> Vec<Digest> {
        range.map(|byte| Digest::from_bytes([byte; 16])).collect()
    }

    fn all(recent: &RecentInserts) -> Vec<Digest> {
        let end = recent.begin_replay(b"new", KEY).end;
        let (mut all, mut at) = (Vec::new(), 0);
        while at < end {
            let (some, next) = recent.since(at, 2);
            all.extend(some);
            at = next;
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledged_inserts_are_replayed_to_each_incarnation_that_lacks_them() {
        let recent = recent(100);
        assert!(recent.are_in(b"any"), "there is nothing to replay");
        recent.acknowledged(&digests(0..3), KEY);
        assert!(!recent.are_in(b"any"));
        assert_eq!(all(&recent), digests(0..3));
        recent.note_held_by(b"one");
        assert!(recent.are_in(b"one") && !recent.are_in(b"two"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_insert_is_remembered_for_longer_than_its_transaction_and_then_forgotten() {
        let recent = recent(100);
        recent.acknowledged(&digests(0..1), KEY);
        advance(REACH + Duration::from_secs(30)).await;
        recent.prune();
        assert_eq!(all(&recent).len(), 1);
        advance(Duration::from_secs(60)).await;
        recent.prune();
        assert_eq!(all(&recent).len(), 0);
        assert_eq!(recent.complete_since(Duration::from_secs(30)), Ok(()), "it was over by then");
        let long_ago = recent.complete_since(Duration::from_secs(120));
        assert_eq!(long_ago, Err(Duration::ZERO), "it was open then, and is over now");
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_it_holds_makes_it_incomplete_until_their_transactions_end() {
        let recent = recent(3);
        recent.acknowledged(&digests(0..4), KEY);
        assert_eq!(all(&recent), digests(1..4), "the oldest went");
        let open = recent.complete_since(Duration::ZERO).unwrap_err();
        assert!(open >= REACH && open < REACH + Duration::from_secs(1), "{open:?}");
        advance(REACH + Duration::from_secs(1)).await;
        let read = recent.complete_since(Duration::ZERO);
        assert_eq!(read, Err(Duration::ZERO), "a handler may have read the database before");
        advance(HANDLER).await;
        assert_eq!(recent.complete_since(Duration::ZERO), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_replay_ends_with_the_transactions_of_the_inserts_that_it_began_with() {
        let recent = recent(100);
        recent.acknowledged(&digests(0..2), KEY);
        let replay = recent.begin_replay(b"one", KEY);
        advance(REACH + HANDLER).await;
        recent.acknowledged(&digests(2..3), KEY);
        assert_eq!(recent.begin_replay(b"one", KEY), replay, "the new one was acknowledged by it");
        assert!(!replay.was_over(Duration::ZERO));
        advance(Duration::from_secs(1)).await;
        assert!(replay.was_over(Duration::ZERO));
        let other = recent.begin_replay(b"two", KEY);
        assert_eq!(other.end, 3);
        assert!(!other.was_over(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_replay_that_failed_goes_on_where_it_was_and_begins_anew_for_another_incarnation() {
        let recent = recent(100);
        recent.acknowledged(&digests(0..3), KEY);
        assert_eq!(recent.begin_replay(b"one", KEY).next, 0);
        recent.replayed(b"one", 2);
        let replay = recent.begin_replay(b"one", KEY);
        assert_eq!((replay.next, replay.end), (2, 3));
        assert_eq!(recent.begin_replay(b"two", KEY).next, 0);
        recent.replayed(b"one", 3);
        assert_eq!(recent.begin_replay(b"two", KEY).next, 0, "that was the other's");
    }

    #[tokio::test(start_paused = true)]
    async fn another_secret_key_makes_it_incomplete() {
        let recent = recent(100);
        recent.acknowledged(&digests(0..1), KEY);
        assert_eq!(recent.complete_since(Duration::ZERO), Ok(()));
        advance(Duration::from_secs(100)).await;
        let end = recent.begin_replay(b"new", KEY + 1).end;
        assert_eq!(recent.since(0, 10), (vec![], end));
        recent.acknowledged(&digests(1..2), KEY);
        assert_eq!(recent.since(0, 10), (vec![], end), "its digest is of the old key");
        assert!(recent.complete_since(Duration::ZERO).unwrap_err() >= REACH);
    }
}
