//! What this process serves bears witness of the filter.
//!
//! An id that was *found* lately passes, and nobody is asked. If a request for it began after the filter was seen and was answered
//! 2xx, the filter has to hold it: the rebuild read the database before. One that is missing may come from a cache of the
//! application's; several are missing from a filter of other records.

use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decide::bucket::{Bucket, nanos};
use crate::filter::Generation;
use crate::id::Id;
use crate::store::Lookup;
use crate::verdict::{Proof, Verdict};

/// How many ids are looked up at once after a filter was seen. After those it is one a second.
const FIRST: u32 = 16;
/// Two ids that are missing within this time are a finding. A cache of the application's may serve deleted records for as long.
const MINUTE: Duration = Duration::from_secs(60);
/// While a cache may serve what was deleted before the filter was built, so many more ids have to be missing than are there. Of
/// a table of which a tenth was deleted, one filter in 6,000 is taken for another table's.
const MARGIN: usize = 4;

pub(super) struct Served {
    origin: Instant,
    /// The newest filter that a look-up of this process has shown.
    newest: AtomicI64,
    /// When one did first, ns since the origin.
    seen: AtomicU64,
    look_ups: Bucket,
    tally: Mutex<Tally>,
}

/// What was looked up since then.
#[derive(Default)]
struct Tally {
    held: usize,
    missing: Vec<(Instant, Id, Generation)>,
}

impl Served {
    /// Looks nothing up where there are no audits.
    pub(super) fn new(audits: u32) -> Self {
        Self {
            origin: Instant::now(),
            newest: AtomicI64::new(0),
            seen: AtomicU64::new(u64::MAX),
            look_ups: Bucket::new(audits.min(1), FIRST),
            tally: Mutex::default(),
        }
    }

    /// Notes the filter that a look-up has shown; returns whether it is a new one.
    pub(super) fn sees(
        &self,
        generation: Option<Generation>,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        let generation = generation.map_or(0, Generation::get);
        if generation <= self.newest.load(Ordering::Relaxed) {
            return false;
        }
        let mut tally = self.tally.lock();
        self.seen.store(nanos(self.origin, now()), Ordering::SeqCst);
        self.newest.fetch_max(generation, Ordering::SeqCst);
        self.look_ups.fill();
        *tally = Tally::default();
        true
    }

    /// Notes that an id was served to a request that began at `asked`. Returns the filter that has to hold it, if it is to be looked up.
    pub(super) fn note(&self, asked: Instant, now: Instant) -> Option<Generation> {
        // Before it is seen a filter is no newest one.
        let newest = Generation::new(self.newest.load(Ordering::SeqCst))?;
        let is_newer = nanos(self.origin, asked) > self.seen.load(Ordering::SeqCst);
        (is_newer && self.look_ups.take(now)).then_some(newest)
    }

    /// Takes in what a look-up has said of a served id, which the filter `newest` has to hold. Returns the ids that are missing if they are
    /// enough for a finding.
    pub(super) fn weigh(
        &self,
        id: Id,
        newest: Generation,
        found: &Lookup,
        now: Instant,
    ) -> Vec<(Id, Generation)> {
        let Some(generation) = found.claim.generation else { return Vec::new() };
        // Shards have filters of their own: one older than the newest has to hold the id as well.
        let is_replaced = self.newest.load(Ordering::SeqCst) != newest.get();
        if self.sees(Some(generation), || now) || is_replaced {
            return Vec::new();
        }
        let mut tally = self.tally.lock();
        let Tally { held, missing } = &mut *tally;
        match found.verdict {
            Verdict::Absent(Proof::Filter) => {}
            verdict => {
                *held += usize::from(verdict == Verdict::Present);
                return Vec::new();
            }
        }
        missing.retain(|(at, other, _)| *other != id && now.duration_since(*at) < MINUTE);
        missing.push((now, id, generation));
        let seen = self.origin + Duration::from_nanos(self.seen.load(Ordering::SeqCst));
        let late = missing.iter().filter(|(at, ..)| *at >= seen + MINUTE).count();
        if late < 2 && missing.len() < *held + MARGIN {
            return Vec::new();
        }
        mem::take(missing).into_iter().map(|(_, id, generation)| (id, generation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nulls::scope::Scope;
    use crate::store::NullClaim;

    const FIFTH: Generation = Generation::new(5).unwrap();

    fn id(n: u64) -> Id {
        Id::display(&n).unwrap()
    }

    fn found(generation: i64, is_there: bool) -> Lookup {
        let verdict = if is_there { Verdict::Present } else { Verdict::Absent(Proof::Filter) };
        let claim = NullClaim { asked_us: 0, generation: Generation::new(generation) };
        Lookup { verdict, scope: Scope::Everyone, claim }
    }

    /// Serves that have just seen the first filter, and the moment after that.
    fn seen() -> (Served, Instant) {
        let served = Served::new(1);
        let now = Instant::now();
        assert!(
            served.sees(Generation::new(5), || now) && !served.sees(Generation::new(5), || now)
        );
        (served, now + Duration::from_millis(1))
    }

    /// How many of these ids are missing for a finding, the first of them that is one.
    fn finding(served: &Served, now: Instant, ids: impl Iterator<Item = (u64, bool)>) -> usize {
        let mut weighed =
            ids.map(|(n, is_there)| served.weigh(id(n), FIFTH, &found(5, is_there), now));
        weighed.find(|missing| !missing.is_empty()).map_or(0, |missing| missing.len())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_sixteen_are_looked_up_and_then_one_a_second_and_none_that_was_asked_before()
    {
        let (served, now) = seen();
        let early = now - Duration::from_millis(2);
        assert_eq!(served.note(early, now), None);
        let at = |ms| now + Duration::from_millis(ms);
        let is_looked_up = |ms: &u64| served.note(at(*ms), at(*ms)).is_some();
        let looked_up = |from: u64, to: u64| (from..to).filter(is_looked_up).count();
        assert_eq!(looked_up(0, 500), 16);
        assert_eq!(looked_up(500, 10_500), 10);
        served.sees(Generation::new(6), || at(10_500));
        assert_eq!(looked_up(10_501, 11_000), 16, "another filter");
        let unaudited = Served::new(0);
        unaudited.sees(Generation::new(5), || now);
        assert_eq!(unaudited.note(at(1), at(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn four_that_are_missing_at_once_are_a_finding_and_a_tenth_of_them_is_none() {
        let (served, now) = seen();
        assert_eq!(finding(&served, now, (0..16).map(|n| (n, false))), 4);
        let (served, now) = seen();
        assert_eq!(finding(&served, now, (0..76).map(|n| (n, n % 10 != 3))), 0);
        let (served, now) = seen();
        assert_eq!(finding(&served, now, (0..9).map(|_| (7, false))), 0, "the same one");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_minute_two_that_are_missing_within_one_are_a_finding() {
        let (served, now) = seen();
        let at = |s| now + Duration::from_secs(s);
        assert_eq!(finding(&served, now, (0..9).map(|n| (n, true))), 0);
        for s in [1, 30, 59, 61, 130, 191] {
            assert_eq!(finding(&served, at(s), [(100 + s, false)].into_iter()), 0, "{s} s");
        }
        assert_eq!(finding(&served, at(200), [(191 + 100, false)].into_iter()), 0, "the same one");
        assert_eq!(finding(&served, at(250), [(7, false)].into_iter()), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_newer_filter_lacks_is_no_finding_for_a_request_of_before() {
        let (served, now) = seen();
        let missing =
            |(n, generation)| served.weigh(id(n), FIFTH, &found(generation, false), now).len();
        let each = [(0, 5), (1, 5), (2, 5), (3, 6), (4, 6), (5, 6), (7, 6)].map(missing);
        assert_eq!(each, [0; 7], "it begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_older_shard_lacks_is_a_finding_too() {
        let (served, now) = seen();
        let sixth = Generation::new(6).unwrap();
        assert!(served.sees(Some(sixth), || now));
        let missing = |n| served.weigh(id(n), sixth, &found(5, false), now).len();
        assert_eq!([0, 1, 2, 3].map(missing), [0, 0, 0, MARGIN]);
    }
}
