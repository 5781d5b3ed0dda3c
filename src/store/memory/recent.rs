//! The record of recent inserts: what a scan may not see yet, and which ids may have been created a short while ago.
//!
//! An attacker who can create records must not push others out unnoticed. So the record knows when the youngest id was inserted
//! that it dropped. A rebuild that needs that id waits, and until then no null is stored.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::id::Digest;

/// How many old entries an insert drops at most: few, so that the lock is held for a moment.
const SWEEP: usize = 4;

pub(super) struct Recent {
    life: Duration,
    limit: usize,
    /// When each id was inserted last.
    pub(super) inserted: HashMap<Digest, Instant>,
    /// All inserts in their order. An id that was inserted again is here twice.
    order: VecDeque<(Instant, Digest)>,
    /// When the youngest dropped id was inserted.
    pub(super) floor: Option<Instant>,
}

impl Recent {
    pub(super) fn new(life: Duration, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { life, limit, inserted: HashMap::new(), order: VecDeque::new(), floor: None }
    }

    pub(super) fn insert(&mut self, digest: Digest, now: Instant) {
        for _ in 0..SWEEP {
            match self.order.front() {
                Some((at, _)) if *at + self.life <= now => self.drop_oldest(),
                _ => break,
            }
        }
        if self.order.len() >= self.limit {
            self.drop_oldest();
        }
        self.inserted.insert(digest, now);
        self.order.push_back((now, digest));
    }

    /// Whether a create of an id may have begun within the record's life, as far as the record can say.
    pub(super) fn may_hold(&self, digest: &Digest, now: Instant) -> bool {
        let lately = |at: &Instant| *at + self.life > now;
        self.inserted.get(digest).is_some_and(lately) || self.is_short(now)
    }

    pub(super) fn is_short(&self, now: Instant) -> bool {
        self.floor.is_some_and(|at| at + self.life > now)
    }

    pub(super) fn digests(&self) -> Vec<Digest> {
        self.order.iter().map(|(_, digest)| *digest).collect()
    }

    fn drop_oldest(&mut self) {
        let Some((at, digest)) = self.order.pop_front() else { return };
        self.floor = Some(at);
        // An id that was inserted again stays.
        if self.inserted.get(&digest) == Some(&at) {
            self.inserted.remove(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    fn digest(n: u8) -> Digest {
        Digest::from_bytes([n; 16])
    }

    #[test]
    fn an_id_is_recent_for_the_records_life_and_then_not() {
        let start = Instant::now();
        let mut recent = Recent::new(LIFE, 100);
        recent.insert(digest(1), start);
        assert!(recent.may_hold(&digest(1), start + LIFE - SECOND));
        assert!(!recent.may_hold(&digest(1), start + LIFE));
        assert!(!recent.may_hold(&digest(2), start));
        recent.insert(digest(1), start + LIFE - SECOND);
        recent.insert(digest(2), start + LIFE);
        assert!(recent.may_hold(&digest(1), start + LIFE), "inserted again");
        assert_eq!(recent.inserted.len(), 2);
        assert!(!recent.is_short(start + LIFE), "what went was over");
    }

    #[test]
    fn where_one_is_pushed_out_any_may_have_been() {
        let start = Instant::now();
        let mut recent = Recent::new(LIFE, 2);
        (0..3).for_each(|n| recent.insert(digest(n), start + SECOND * n.into()));
        assert_eq!(recent.floor, Some(start));
        assert!(recent.may_hold(&digest(9), start + LIFE - SECOND));
        assert!(!recent.may_hold(&digest(9), start + LIFE));
        assert_eq!(recent.digests(), [1, 2].map(digest));
    }
}
