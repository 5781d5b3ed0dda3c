//! Which ids were met lately: a set of fixed size that forgets, and knows whether it has.
//!
//! Each id has one cache line, found by a keyed hash (SipHash-1-3 with a key of this process), so that nobody outside can choose
//! ids that push another out. A line has seven places, and the time of the newest note that had to make way; whoever asks what was
//! noted since a moment learns from that whether the line can tell. A place is a word: 40 bits of the hash, one bit that says
//! whether the id was *met* or only *marked*, and 23 bits of time. The oldest place makes way. There are 16 bytes for each id the
//! set is meant for. An id is taken for another once in 10¹¹ look-ups.

use std::hash::Hasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use tokio::time::Instant;

use super::bucket::nanos;
use crate::id::Id;

const PLACES: usize = 7;
const WORDS: usize = PLACES + 1;
const WORDS_PER_ID: u64 = 2;
/// An id's life in ticks. It ends up to one tick early.
const TICKS: u64 = 16;
/// Lines that [`RecentIds::forgotten_since`] looks at.
const LINES_ASKED: usize = 1_024;
const TIME_BITS: u32 = 23;
const TIME: u64 = (1 << TIME_BITS) - 1;
const MET: u64 = 1 << TIME_BITS;
const TAG_BITS: u32 = 40;

pub(crate) struct RecentIds {
    lines: Box<[Line]>,
    origin: Instant,
    /// How long a tick is, in nanoseconds.
    tick: u64,
}

#[derive(Default)]
#[repr(align(64))]
struct Line {
    places: [AtomicU64; PLACES],
    /// The tick of the newest note that had to make way; 0 if none had.
    forgot: AtomicU64,
}

/// An id's hash, good within this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdHash(u64);

impl IdHash {
    pub(crate) fn new(id: &Id, mut keyed: SipHasher13) -> Self {
        keyed.write(id.as_bytes());
        Self(keyed.finish())
    }

    const fn tag(self) -> u64 {
        self.0 << (64 - TAG_BITS)
    }
}

impl RecentIds {
    /// Creates a set for `ids` ids. It holds each for `life` at most, and for 15/16 of it while there is room.
    pub(crate) fn new(ids: u64, life: Duration) -> Self {
        let words = ids.saturating_mul(WORDS_PER_ID);
        let lines = usize::try_from(words).unwrap_or(usize::MAX).div_ceil(WORDS).max(1);
        let life = u64::try_from(life.as_nanos()).unwrap_or(u64::MAX);
        Self {
            lines: (0..lines).map(|_| Line::default()).collect(),
            origin: Instant::now(),
            tick: (life / TICKS).max(1),
        }
    }

    /// Whether an id was met within the life of a note.
    pub(crate) fn holds(&self, id: IdHash, now: Instant) -> bool {
        // Most lines hold no place of the id, and the time need not be worked out.
        let places = self.line(id).of(id).map(|(_, there)| there);
        places.filter(|there| there & MET != 0).any(|there| age(there, self.tick(now)) < TICKS)
    }

    /// Whether an id was met or marked since a moment, or may have been.
    pub(crate) fn noted_since(&self, id: IdHash, since: Instant, now: Instant) -> bool {
        let line = self.line(id);
        let (since, now) = (self.tick(since), self.tick(now));
        line.forgot.load(Ordering::Relaxed) >= since
            || line.of(id).any(|(_, there)| age(there, now) <= now.saturating_sub(since))
    }

    pub(crate) fn knows(&self, id: IdHash) -> bool {
        self.line(id).of(id).next().is_some()
    }

    /// Estimates the share of ids about which `noted_since` cannot tell.
    pub(crate) fn forgotten_since(&self, since: Instant) -> f64 {
        let (since, step) = (self.tick(since), self.lines.len().div_ceil(LINES_ASKED));
        let asked = self.lines.iter().step_by(step);
        let forgot = asked.clone().filter(|line| line.forgot.load(Ordering::Relaxed) >= since);
        forgot.count() as f64 / asked.len() as f64
    }

    /// Notes that an id was met. Returns whether that is news: not if it was met in the same tick or later.
    pub(crate) fn note(&self, id: IdHash, now: Instant) -> bool {
        let now = self.tick(now);
        let line = self.line(id);
        let place = line.of(id).next();
        let is_news = place.is_none_or(|(_, there)| there & MET == 0 || age(there, now) > 0);
        if is_news {
            line.write(place, id.tag() | MET | now & TIME, now);
        }
        is_news
    }

    /// Marks an id that was not met. If it was met lately, it counts as met for another life.
    pub(crate) fn mark(&self, id: IdHash, now: Instant) {
        let now = self.tick(now);
        let line = self.line(id);
        let place = line.of(id).next();
        let met =
            place.filter(|(_, there)| age(*there, now) < TICKS).map_or(0, |(_, there)| there & MET);
        line.write(place, id.tag() | met | now & TIME, now);
    }

    pub(crate) fn forget(&self, id: IdHash) {
        for (place, there) in self.line(id).of(id) {
            // Another id that was noted here in between keeps the place.
            let _kept = place.compare_exchange(there, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns the number of the tick, from 1 on.
    fn tick(&self, at: Instant) -> u64 {
        nanos(self.origin, at) / self.tick + 1
    }

    fn line(&self, id: IdHash) -> &Line {
        let spread = u128::from(id.0) * self.lines.len() as u128;
        &self.lines[(spread >> 64) as usize]
    }
}

impl Line {
    /// Returns the places of an id and what they hold, however old.
    fn of(&self, id: IdHash) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let places = self.places.iter().map(|place| (place, place.load(Ordering::Relaxed)));
        places.filter(move |(_, there)| (there ^ id.tag()) >> (64 - TAG_BITS) == 0 && *there != 0)
    }

    /// Writes a note to the id's place, or to the oldest one.
    fn write(&self, place: Option<(&AtomicU64, u64)>, noted: u64, now: u64) {
        if let Some((place, _)) = place {
            return place.store(noted, Ordering::Relaxed);
        }
        let mut oldest = (0, &self.places[noted as usize % PLACES], 0);
        for place in &self.places {
            let there = place.load(Ordering::Relaxed);
            let age = if there == 0 { TIME } else { age(there, now) };
            if age > oldest.0 {
                oldest = (age, place, there);
            }
        }
        let (age, place, there) = oldest;
        if there != 0 || age == 0 {
            self.forgot.fetch_max(now.saturating_sub(age), Ordering::Relaxed);
        }
        place.store(noted, Ordering::Relaxed);
    }
}

/// Returns how many ticks before `now` a place was written, modulo 2²³; zero if another thread's clock was a little ahead.
const fn age(there: u64, now: u64) -> u64 {
    let age = now.wrapping_sub(there) & TIME;
    if age > TIME - TICKS { 0 } else { age }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(160);

    fn hashes(count: u64) -> Vec<IdHash> {
        (0..count).map(|n| IdHash::new(&Id::display(&n).unwrap(), SipHasher13::new())).collect()
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
        // Poisson with mean 4 exceeds 7 places in 5 % of the lines, mostly by one or two ids.
        assert!(held > 97_500, "{held}");
    }

    #[test]
    fn a_mark_is_no_note_and_ends_none() {
        let recent = RecentIds::new(1_000, LIFE);
        let (begun, [met, marked]) = (recent.origin, hashes(2).try_into().unwrap());
        recent.note(met, begun);
        for id in [met, marked] {
            recent.mark(id, begun);
            assert!(recent.noted_since(id, begun, begun) && recent.knows(id));
        }
        assert!(recent.holds(met, begun) && !recent.holds(marked, begun));
        let later = begun + LIFE;
        recent.mark(met, later);
        assert!(!recent.holds(met, later), "what was met long ago is only marked then");
        assert!(recent.note(marked, begun) && recent.holds(marked, begun));
    }

    #[test]
    fn whatever_was_noted_since_a_moment_is_known_or_its_line_says_that_it_is_not() {
        let recent = RecentIds::new(1_000, LIFE);
        let (before, part) = (recent.origin, LIFE / TICKS as u32);
        let ids = hashes(3_000);
        ids[..1_000].iter().for_each(|id| recent.mark(*id, before));
        let since = before + part;
        let mut now = since;
        for (n, id) in ids.iter().enumerate().skip(1_000) {
            now = since + part * (n / 50) as u32;
            if n % 2 == 0 {
                recent.mark(*id, now);
            } else {
                recent.note(*id, now);
            }
            let noted = &ids[1_000..=n];
            assert!(noted.iter().all(|id| recent.noted_since(*id, since, now)), "{n}");
        }
        // It was full long before.
        assert!(recent.forgotten_since(since) > 0.3);
        assert!(recent.forgotten_since(now + part) < f64::EPSILON);
        let [other] = hashes(1).try_into().unwrap();
        assert!(!recent.noted_since(other, now + part, now + part));
    }

    #[test]
    fn with_room_for_all_no_line_is_silent_and_older_notes_do_not_count() {
        let recent = RecentIds::new(100_000, LIFE);
        let (before, since) = (recent.origin, recent.origin + LIFE);
        let ids = hashes(10_000);
        ids.iter().for_each(|id| recent.mark(*id, before));
        ids[..5_000].iter().for_each(|id| recent.mark(*id, since));
        let noted = |id: &&IdHash| recent.noted_since(**id, since, since);
        assert_eq!(ids.iter().filter(noted).count(), 5_000);
        assert!(recent.forgotten_since(since) < f64::EPSILON);
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
        assert_eq!(held, 250 * PLACES);
    }
}
