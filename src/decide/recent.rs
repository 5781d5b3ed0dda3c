//! Which ids were met lately: a set of fixed size that forgets.
//!
//! Each id has one cache line of eight places, found by a keyed hash (SipHash-1-3 with a key of this
//! process), so that nobody outside can choose ids that push another out. A place is a word: 40 bits of
//! the hash, and the time in 24. There are two places for each id the set is meant for, 16 bytes. What a
//! full line holds longest makes way. Forgetting an id is always safe. An id is taken for another once in
//! 10¹¹ look-ups.

use std::fmt;
use std::hash::Hasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use tokio::time::Instant;

use crate::id::Id;
use crate::random;

const PLACES: usize = 8;
const PLACES_PER_ID: u64 = 2;
/// Parts in which an id's life is counted: it ends up to one part early.
const TICKS: u64 = 16;
const TIME_BITS: u32 = 24;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// A set of ids met lately.
pub(crate) struct RecentIds {
    lines: Box<[Line]>,
    origin: Instant,
    /// Nanoseconds.
    tick: u64,
}

/// A cache line.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; PLACES]);

/// An id's hash, good within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdHash(u64);

/// Hashes ids with a key of this process.
#[derive(Clone)]
pub(crate) struct IdHasher(SipHasher13);

impl IdHasher {
    pub(crate) fn new() -> Self {
        Self(SipHasher13::new_with_keys(random::scatter(), random::scatter()))
    }

    pub(crate) fn hash(&self, id: &Id) -> IdHash {
        let mut hasher = self.0;
        hasher.write(id.as_bytes());
        IdHash(hasher.finish())
    }
}

impl fmt::Debug for IdHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdHasher").finish_non_exhaustive()
    }
}

impl IdHash {
    const fn tag(self) -> u64 {
        self.0 & (u64::MAX >> TIME_BITS)
    }
}

impl RecentIds {
    /// Returns a set for `ids` ids, each of which it keeps for this time at most, and for 15/16 of it
    /// while there is room.
    pub(crate) fn new(ids: u64, life: Duration) -> Self {
        let places = ids.saturating_mul(PLACES_PER_ID);
        let lines = usize::try_from(places).unwrap_or(usize::MAX).div_ceil(PLACES).max(1);
        let life = u64::try_from(life.as_nanos()).unwrap_or(u64::MAX);
        Self {
            lines: (0..lines).map(|_| Line::default()).collect(),
            origin: Instant::now(),
            tick: (life / TICKS).max(1),
        }
    }

    pub(crate) fn holds(&self, id: IdHash, now: Instant) -> bool {
        // Most lines hold no place of the id, and the time need not be worked out.
        let places = self.line(id).iter().map(|place| place.load(Ordering::Relaxed));
        places.filter(|there| is_of(*there, id)).any(|there| age(there, self.time(now)) < TICKS)
    }

    /// Notes that an id was met; says whether that was news. It is none twice within a tick, nor when the id was
    /// met again since.
    pub(crate) fn note(&self, id: IdHash, now: Instant) -> bool {
        let now = self.time(now);
        let noted = id.tag() << TIME_BITS | now;
        let line = self.line(id);
        let mut oldest = (0, &line[id.0 as usize % PLACES]);
        for place in line {
            let there = place.load(Ordering::Relaxed);
            if is_of(there, id) {
                let is_news = age(now, there) >= TICKS;
                if is_news {
                    place.store(noted, Ordering::Relaxed);
                }
                return is_news;
            }
            let age = if there == 0 { TIME } else { age(there, now) };
            if age > oldest.0 {
                oldest = (age, place);
            }
        }
        oldest.1.store(noted, Ordering::Relaxed);
        true
    }

    /// Takes an id out.
    pub(crate) fn forget(&self, id: IdHash) {
        for place in self.line(id) {
            let there = place.load(Ordering::Relaxed);
            if is_of(there, id) {
                // Another id that was noted here in between keeps the place.
                let _kept = place.compare_exchange(there, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// The number of ticks so far, from 1 on.
    fn time(&self, now: Instant) -> u64 {
        let nanos = now.saturating_duration_since(self.origin).as_nanos();
        (u64::try_from(nanos).unwrap_or(u64::MAX) / self.tick + 1) & TIME
    }

    fn line(&self, id: IdHash) -> &[AtomicU64; PLACES] {
        let spread = u128::from(id.0) * self.lines.len() as u128;
        &self.lines[(spread >> 64) as usize].0
    }
}

/// Whether a place is this id's, be it for too long.
const fn is_of(there: u64, id: IdHash) -> bool {
    there >> TIME_BITS == id.tag() && there != 0
}

/// How many ticks before `now` a place was written. The count begins again after 2²⁴ ticks.
const fn age(there: u64, now: u64) -> u64 {
    now.wrapping_sub(there) & TIME
}

impl fmt::Debug for RecentIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentIds").field("places", &(self.lines.len() * PLACES)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(160);

    fn hashes(count: u64) -> Vec<IdHash> {
        let hasher = IdHasher::new();
        (0..count).map(|n| hasher.hash(&Id::display(&n).unwrap())).collect()
    }

    #[test]
    fn an_id_is_held_from_its_note_until_it_is_forgotten() {
        let recent = RecentIds::new(1_000, LIFE);
        let now = Instant::now();
        let [met, other] = hashes(2).try_into().unwrap();
        recent.note(met, now);
        assert!(recent.holds(met, now) && !recent.holds(other, now));
        recent.note(met, now);
        recent.forget(met);
        assert!(!recent.holds(met, now));
    }

    #[test]
    fn an_id_is_held_for_no_longer_than_its_life_and_for_nearly_all_of_it() {
        let recent = RecentIds::new(1_000, LIFE);
        let begun = recent.origin;
        for (n, id) in hashes(100).into_iter().enumerate() {
            let now = begun + Duration::from_millis(777 * n as u64);
            recent.note(id, now);
            assert!(recent.holds(id, now + LIFE.mul_f64(0.9375) - Duration::from_millis(1)));
            assert!(!recent.holds(id, now + LIFE));
        }
    }

    #[test]
    fn a_note_begins_an_ids_life_anew() {
        let recent = RecentIds::new(1_000, LIFE);
        let begun = recent.origin;
        let id = hashes(1)[0];
        recent.note(id, begun);
        recent.note(id, begun + LIFE / 2);
        assert!(recent.holds(id, begun + LIFE));
    }

    #[test]
    fn a_note_is_news_once_in_a_part_of_its_life_and_never_goes_back() {
        let recent = RecentIds::new(1_000, LIFE);
        let (begun, part, id) = (recent.origin, LIFE / TICKS as u32, hashes(1)[0]);
        let noted = [0, 0, 1, 1, 0].map(|parts| recent.note(id, begun + part * parts));
        assert_eq!(noted, [true, false, true, false, false]);
        assert!(recent.holds(id, begun + LIFE));
        recent.forget(id);
        assert!(recent.note(id, begun));
        assert!(!recent.holds(id, begun + LIFE));
    }

    #[test]
    fn nearly_all_of_the_ids_it_is_meant_for_are_held() {
        let recent = RecentIds::new(100_000, LIFE);
        let now = Instant::now();
        let ids = hashes(100_000);
        assert!(ids.iter().all(|id| recent.note(*id, now)));
        let held = ids.iter().filter(|id| recent.holds(**id, now)).count();
        // Poisson with mean 4 exceeds 8 places in 2 % of the lines, mostly by one or two ids.
        assert!(held > 98_000, "{held}");
    }

    #[test]
    fn in_a_flood_the_newest_stay() {
        let recent = RecentIds::new(1_000, LIFE);
        let ids = hashes(100_000);
        for (n, id) in ids.iter().enumerate() {
            let now = recent.origin + Duration::from_millis(n as u64);
            recent.note(*id, now);
            assert!(recent.holds(*id, now));
        }
        let end = recent.origin + Duration::from_secs(100);
        let held = ids.iter().filter(|id| recent.holds(**id, end)).count();
        assert_eq!(held, 2_000);
    }
}
