//! How much memory the copies of all guards of this process take together.

use std::sync::atomic::{AtomicU64, Ordering};

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Room for one copy, given back when it is dropped.
pub(super) struct Room(u64);

impl Room {
    /// Takes room for so many bytes, if all copies of this process stay within a limit.
    pub(super) fn take(bytes: u64, limit: u64) -> Option<Self> {
        let fits = |taken: u64| taken.checked_add(bytes).filter(|all| *all <= limit);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Self(bytes))
    }

    /// Whether there would be room for so many bytes if this one were given back.
    pub(super) fn makes_room(&self, bytes: u64, limit: u64) -> bool {
        let others = TAKEN.load(Ordering::Relaxed).saturating_sub(self.0);
        others.checked_add(bytes).is_some_and(|all| all <= limit)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_copies_of_a_process_keep_within_a_limit() {
        // Beyond what other tests take meanwhile.
        const HALF: u64 = 1 << 60;
        let limit = 2 * HALF + HALF / 2;
        let first = Room::take(HALF, limit).unwrap();
        let _second = Room::take(HALF, limit).unwrap();
        assert!(Room::take(HALF, limit).is_none());
        assert!(first.makes_room(HALF, limit) && !first.makes_room(2 * HALF, limit));
        drop(first);
        assert!(Room::take(HALF, limit).is_some());
        assert!(Room::take(u64::MAX, u64::MAX).is_none());
    }
}
