//! What this process knows of the hand-over from another filter to this one. It tells metadata that do not know it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::HandOver;
use crate::store::redis::fleet::HOLDS;

/// What the metadata of all shards say of it. What one says holds for all.
pub(crate) struct KnownHandOver {
    /// The filter that this one takes the place of, if this process moves.
    former: Option<String>,
    newest: Mutex<Newest>,
    /// How many shards have not been asked yet.
    unasked: AtomicUsize,
    made: Instant,
    /// When a shard was asked last, ms after `made`; 0 for never.
    asked_ms: AtomicU64,
    /// Whether this filter was itself left for another one.
    is_left: AtomicBool,
}

#[derive(Default)]
struct Newest {
    /// As the metadata have it: `1:` or `2:`, and the former filter. Empty where none was begun.
    written: String,
    /// The same for this process's former filter.
    step: HandOver,
}

impl KnownHandOver {
    pub(crate) fn new(former: Option<String>, shards: usize) -> Self {
        Self {
            former,
            newest: Mutex::default(),
            unasked: AtomicUsize::new(shards),
            made: Instant::now(),
            asked_ms: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
        }
    }

    /// Returns how far it is; nothing where the metadata were not asked within the last seconds, and nothing is known of one.
    pub(crate) fn step(&self) -> Option<HandOver> {
        // The moment first: what was read then, or later, is what is returned.
        let asked = self.asked_ms.load(Ordering::SeqCst);
        let age = (self.made.elapsed().as_millis() as u64).saturating_sub(asked);
        let all_asked = asked > 0 && self.unasked.load(Ordering::SeqCst) == 0;
        let holds = all_asked && age <= HOLDS.as_millis() as u64;
        let step = self.newest.lock().step;
        (holds || step > HandOver::None).then_some(step)
    }

    /// Whether this filter is known to have been left for another one.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }

    pub(crate) fn note_left(&self) {
        self.is_left.store(true, Ordering::SeqCst);
    }

    /// Returns what metadata are told that do not know it. Those of a filter that was left, and whose keys were deleted, begin
    /// anew: it may take another one's place.
    pub(crate) fn told(&self) -> String {
        if self.is_left() { String::new() } else { self.written() }
    }

    /// Returns what the metadata should have.
    pub(crate) fn written(&self) -> String {
        self.newest.lock().written.clone()
    }

    /// Returns what they have once it is at this step.
    pub(crate) fn at(&self, step: HandOver) -> String {
        let former = self.former.as_deref().unwrap_or_default();
        if step == HandOver::None { String::new() } else { format!("{}:{former}", step as u8) }
    }

    /// Notes that it is at this step.
    pub(crate) fn note_step(&self, step: HandOver) {
        self.note(&self.at(step));
    }

    /// Notes what a shard's metadata have, which are as old as this, asked at this moment.
    pub(crate) fn read(&self, written: &str, asked: Instant, age: Duration, is_first: bool) {
        self.note(written);
        if is_first {
            self.unasked.fetch_sub(1, Ordering::SeqCst);
        }
        self.asked(asked, age);
    }

    /// Notes that a shard was asked at this moment, and that its metadata have what is known. Those that were made a moment ago may
    /// not have been told yet.
    pub(crate) fn asked(&self, asked: Instant, age: Duration) {
        if age > HOLDS {
            let asked = asked.saturating_duration_since(self.made).as_millis() as u64;
            self.asked_ms.fetch_max(asked.max(1), Ordering::SeqCst);
        }
    }

    fn note(&self, written: &str) {
        let mut newest = self.newest.lock();
        let is_other = newest.written.get(2..) != written.get(2..);
        if written.is_empty() || !is_other && written <= newest.written.as_str() {
            return;
        }
        newest.written = written.to_owned();
        let before = newest.step;
        newest.step = match self.former.as_deref() {
            former if former != written.get(2..) => HandOver::None,
            _ if written.starts_with('1') => HandOver::Begun,
            _ => HandOver::Done,
        };
        if let (HandOver::None, HandOver::Begun | HandOver::Done) = (before, newest.step) {
            let former = written.get(2..);
            tracing::info!(parent: None, former, "the old filter was left: the guard's own answers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn that_no_hand_over_was_begun_is_known_of_all_shards_and_for_three_seconds() {
        let known = KnownHandOver::new(Some("old".to_owned()), 2);
        known.read("", Instant::now(), OLD, true);
        assert_eq!(known.step(), None, "the other shard was not asked");
        known.read("", Instant::now(), OLD, true);
        assert_eq!(known.step(), Some(HandOver::None));
        tokio::time::advance(HOLDS + Duration::from_millis(2)).await;
        assert_eq!(known.step(), None);
        known.asked(Instant::now(), HOLDS);
        assert_eq!(known.step(), None, "nobody may have told them yet");
        known.asked(Instant::now(), OLD);
        assert_eq!(known.step(), Some(HandOver::None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_stays_so_and_is_told_to_others() {
        let known = KnownHandOver::new(Some("old".to_owned()), 1);
        known.read("1:old", Instant::now(), OLD, true);
        known.read("", Instant::now(), OLD, false);
        tokio::time::advance(2 * HOLDS).await;
        assert_eq!((known.step(), known.written().as_str()), (Some(HandOver::Begun), "1:old"));
        known.note_step(HandOver::Done);
        known.read("1:old", Instant::now(), OLD, false);
        assert_eq!((known.step(), known.written().as_str()), (Some(HandOver::Done), "2:old"));
        // One that does not move tells it, too.
        let other = KnownHandOver::new(None, 1);
        other.read("2:old", Instant::now(), OLD, true);
        assert_eq!((other.step(), other.written().as_str()), (Some(HandOver::None), "2:old"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_hand_over_of_another_filter_says_nothing_of_this_one() {
        let known = KnownHandOver::new(Some("old".to_owned()), 1);
        known.read("2:older", Instant::now(), OLD, true);
        assert_eq!(known.step(), Some(HandOver::None));
        known.note_step(HandOver::Begun);
        assert_eq!((known.step(), known.written().as_str()), (Some(HandOver::Begun), "1:old"));
    }
}
