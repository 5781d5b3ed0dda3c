//! Which ids were seen lately: a set of fixed size that forgets.
//!
//! Each id has one cache line of eight places, found by a keyed hash (SipHash-1-3 with a key of this
//! process), so that nobody outside can choose ids that push another out. An id kept here costs eight
//! bytes. Forgetting one is always safe, and two ids taken for one are too rare to matter: 64 bits are
//! compared.

use std::fmt;
use std::hash::Hasher as _;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip::SipHasher13;

use crate::id::Id;
use crate::random;

const PLACES: usize = 8;

/// A set of ids that forgets the older ones.
pub(crate) struct Sightings(Box<[Line]>);

/// A cache line.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; PLACES]);

/// What is kept of an id, good within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace(NonZeroU64);

impl Trace {
    /// One in 2^64 shares its trace with another for this.
    fn of(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MAX))
    }
}

impl Trace {
    /// Returns the trace of the same id as HEAD asks for it.
    pub(crate) fn by_head(self) -> Self {
        Self::of(!self.0.get())
    }

    /// Returns the trace of the same id as it is asked for with a query.
    pub(crate) fn with_query(self) -> Self {
        Self::of(self.0.get().rotate_left(32))
    }

    /// Returns the trace of the same during one of many spells: what is noted in one is forgotten in
    /// the next.
    pub(crate) fn during(self, spell: u64) -> Self {
        // Scattered, so that an id moves to another line with each.
        Self::of(self.0.get() ^ spell.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Makes traces.
#[derive(Clone)]
pub(crate) struct Tracer(SipHasher13);

impl Tracer {
    pub(crate) fn new() -> Self {
        Self(SipHasher13::new_with_keys(random::scatter(), random::scatter()))
    }

    pub(crate) fn trace(&self, id: &Id) -> Trace {
        Trace::of(self.0.hash(id.as_bytes()))
    }

    /// Returns the trace of a caller who shows these credentials, and of nobody if there are none.
    pub(crate) fn caller<'a>(
        &self,
        credentials: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<Trace> {
        let mut hasher = self.0;
        let mut any = false;
        for value in credentials {
            any = true;
            hasher.write_usize(value.len());
            hasher.write(value);
        }
        any.then(|| Trace::of(hasher.finish()))
    }

    /// Returns the trace of an id as this caller sees it.
    pub(crate) fn both(&self, id: Trace, caller: Option<Trace>) -> Trace {
        let mut hasher = self.0;
        hasher.write_u64(id.0.get());
        hasher.write_u64(caller.map_or(0, |caller| caller.0.get()));
        Trace::of(hasher.finish())
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").finish_non_exhaustive()
    }
}

impl Sightings {
    /// Returns a set of at least so many ids.
    pub(crate) fn new(ids: u64) -> Self {
        let lines = usize::try_from(ids).unwrap_or(usize::MAX).div_ceil(PLACES);
        Self((0..lines.max(1)).map(|_| Line::default()).collect())
    }

    pub(crate) fn hold(&self, trace: Trace) -> bool {
        self.line(trace).iter().any(|place| place.load(Ordering::Relaxed) == trace.0.get())
    }

    pub(crate) fn note(&self, trace: Trace) {
        let line = self.line(trace);
        let mut free = None;
        for place in line {
            match place.load(Ordering::Relaxed) {
                seen if seen == trace.0.get() => return,
                0 => free = free.or(Some(place)),
                _ => {}
            }
        }
        let newest_replaces = &line[(trace.0.get() >> 8) as usize % PLACES];
        free.unwrap_or(newest_replaces).store(trace.0.get(), Ordering::Relaxed);
    }

    pub(crate) fn forget(&self, trace: Trace) {
        let ours = trace.0.get();
        for place in self.line(trace) {
            if place.load(Ordering::Relaxed) == ours {
                // Whoever wrote another id here in between keeps the place.
                let _kept =
                    place.compare_exchange(ours, 0, Ordering::Relaxed, Ordering::Relaxed).is_err();
            }
        }
    }

    fn line(&self, trace: Trace) -> &[AtomicU64; PLACES] {
        let spread = u128::from(trace.0.get()) * self.0.len() as u128;
        &self.0[(spread >> 64) as usize].0
    }
}

impl fmt::Debug for Sightings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sightings").field("places", &(self.0.len() * PLACES)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces(from: u64, count: u64) -> Vec<Trace> {
        let tracer = Tracer::new();
        (from..from + count).map(|n| tracer.trace(&Id::display(&n).unwrap())).collect()
    }

    #[test]
    fn an_id_is_held_from_its_sighting_until_it_is_forgotten() {
        let sightings = Sightings::new(1_000);
        let [seen, other] = traces(0, 2).try_into().unwrap();
        sightings.note(seen);
        assert!(sightings.hold(seen) && !sightings.hold(other));
        sightings.note(seen);
        sightings.forget(seen);
        assert!(!sightings.hold(seen));
    }

    #[test]
    fn a_set_that_is_half_full_holds_nearly_all() {
        let sightings = Sightings::new(100_000);
        let traces = traces(0, 50_000);
        traces.iter().for_each(|trace| sightings.note(*trace));
        let held = traces.iter().filter(|trace| sightings.hold(**trace)).count();
        // Poisson with mean 4 exceeds 8 places in 2 % of the lines, by one or two ids mostly.
        assert!(held > 49_000, "{held}");
    }

    #[test]
    fn a_flood_takes_no_room_and_the_newest_stay() {
        let sightings = Sightings::new(1_000);
        let traces = traces(0, 100_000);
        for trace in &traces {
            sightings.note(*trace);
            assert!(sightings.hold(*trace));
        }
        let held = traces.iter().filter(|trace| sightings.hold(**trace)).count();
        assert_eq!(held, 1_000);
    }
}
