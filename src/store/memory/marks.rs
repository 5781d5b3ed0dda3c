//! Create marks: which ids may have been created a short while ago.
//!
//! No null is stored for an id while it is marked. An attacker that can create records must not be able
//! to push marks out. So when there is no room, an id gets no mark, and no null at all is stored until it would
//! have ended.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::id::Digest;

/// How many old marks each new one drops at most: more than one, so that they get fewer, and few, so that
/// the lock is not held for long.
const SWEEP: usize = 4;

pub(super) struct Marks {
    ttl: Duration,
    ends: HashMap<Digest, Instant>,
    /// All marks in the order they were set, and so in the order they end. One set anew is here twice.
    order: VecDeque<(Instant, Digest)>,
    /// When the last mark that found no room would have ended.
    closed_until: Option<Instant>,
}

impl Marks {
    pub(super) fn new(ttl: Duration) -> Self {
        let (ends, order) = (HashMap::new(), VecDeque::new());
        Self { ttl, ends, order, closed_until: None }
    }

    /// Marks an id, if there are fewer marks than the limit, some 80 bytes each.
    pub(super) fn set(&mut self, digest: Digest, now: Instant, limit: u64) {
        for _ in 0..SWEEP {
            match self.order.front() {
                Some((end, _)) if *end <= now => self.drop_oldest(),
                _ => break,
            }
        }
        let end = now + self.ttl;
        if self.order.len() as u64 >= limit {
            self.closed_until = Some(end);
            return;
        }
        self.ends.insert(digest, end);
        self.order.push_back((end, digest));
    }

    pub(super) fn hold(&self, digest: &Digest, now: Instant) -> bool {
        self.ends.get(digest).is_some_and(|end| now < *end)
    }

    /// Whether marks are missing, so that any id might be one that was marked.
    pub(super) fn are_incomplete(&self, now: Instant) -> bool {
        self.closed_until.is_some_and(|until| now < until)
    }

    fn drop_oldest(&mut self) {
        // One that was set anew since stands.
        if let Some((end, digest)) = self.order.pop_front()
            && self.ends.get(&digest) == Some(&end)
        {
            self.ends.remove(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    fn digest(n: u8) -> Digest {
        Digest::from_bytes([n; 16])
    }

    #[test]
    fn a_mark_lasts_its_time_and_a_renewed_one_longer() {
        let start = Instant::now();
        let mut marks = Marks::new(TTL);
        marks.set(digest(1), start, 10);
        marks.set(digest(1), start + TTL / 2, 10);
        assert!(marks.hold(&digest(1), start + TTL));
        marks.set(digest(2), start + TTL, 10);
        assert!(marks.hold(&digest(1), start + TTL), "sweeping the old entry keeps the new mark");
        assert!(!marks.hold(&digest(1), start + TTL / 2 + TTL));
    }

    #[test]
    fn a_mark_that_finds_no_room_closes_the_books_until_its_time_is_up() {
        let start = Instant::now();
        let mut marks = Marks::new(TTL);
        marks.set(digest(1), start, 2);
        marks.set(digest(2), start + TTL / 4, 2);
        assert!(!marks.are_incomplete(start + TTL / 4));
        marks.set(digest(3), start + TTL / 2, 2);
        assert!(marks.hold(&digest(1), start + TTL / 2), "no mark makes way for another");
        let end = start + TTL / 2 + TTL;
        assert!(marks.are_incomplete(end - Duration::from_nanos(1)));
        assert!(!marks.are_incomplete(end));
    }

    #[test]
    fn marks_never_outnumber_their_bound() {
        let start = Instant::now();
        let mut marks = Marks::new(TTL);
        for n in 0..100 {
            marks.set(digest(n % 7), start + Duration::from_secs(n.into()), 5);
            assert!(marks.order.len() <= 5 && marks.ends.len() <= marks.order.len());
        }
    }
}
