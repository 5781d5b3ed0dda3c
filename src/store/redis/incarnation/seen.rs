//! How far this process has seen an incarnation come. Data that have not come as far have gone back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::link::transport::Clock;

/// How far an incarnation's age by Redis's clock may be beyond its age by this machine's.
const SLACK: Duration = Duration::from_secs(1);

/// More entries than are written between two polls.
const BACK: i64 = 1 << 32;

/// The last incarnation that this process has met.
#[derive(Default)]
pub(crate) struct LastIncarnation(ArcSwapOption<Met>);

struct Met {
    /// The Redis process that it lives on.
    run: u32,
    incarnation: Vec<u8>,
    /// Later ones have greater numbers.
    number: i64,
    /// Since when this process knows it.
    since: Instant,
    /// The greatest number of a journal entry that is known to have been written.
    seq: AtomicI64,
    /// An entry that was written: its number, and when.
    entry: Mutex<Entry>,
    clock: Clock,
    /// Whether Redis's clock and this machine's have parted since.
    parted: AtomicBool,
}

impl Met {
    fn entry(&self) -> Entry {
        *self.entry.lock()
    }

    fn known(&self) -> Told {
        Told {
            incarnation: self.incarnation.clone(),
            number: self.number,
            seq: self.seq.load(Ordering::SeqCst),
            entry: self.entry(),
            parted: self.parted.load(Ordering::SeqCst),
        }
    }
}

/// The number of a journal entry, and when it was written, ms.
pub(crate) type Entry = (i64, i64);

/// What a script is told of it.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) incarnation: Vec<u8>,
    pub(crate) number: i64,
    pub(crate) seq: i64,
    pub(crate) entry: Entry,
    pub(crate) parted: bool,
}

/// Of two entries the later one. Where another has the number of the one that is known, data have gone back in time.
fn later(known: Entry, entry: Entry) -> Entry {
    if entry.0 > known.0 { entry } else { known }
}

impl LastIncarnation {
    /// Notes what a join was told; returns whether Redis's clock has gone on as this machine's in an incarnation that has
    /// begun since the last one was met: it cannot be older than that.
    pub(crate) fn joined(
        &self,
        run: u32,
        incarnation: &[u8],
        number: i64,
        entry: Entry,
        age: Duration,
        clock: Clock,
    ) -> bool {
        let before = self.0.load();
        let before = before.as_ref().filter(|met| met.run == run && met.number < number);
        let is_outlasted = before.is_some_and(|met| age > met.clock.age() + SLACK);
        self.0.rcu(|met| {
            // Of three connections that join at a time, the last may tell of the earliest, or lead to a Redis of before.
            if let Some(met) = met
                && met.number > number
            {
                return Some(Arc::clone(met));
            }
            let known = met.as_ref().filter(|met| met.incarnation == incarnation);
            let seq = known.map_or(entry.0, |met| met.seq.load(Ordering::SeqCst).max(entry.0));
            let since = known.map_or_else(Instant::now, |met| met.since);
            let entry = Mutex::new(known.map_or(entry, |met| later(met.entry(), entry)));
            let incarnation = incarnation.to_vec();
            let (seq, parted) = (AtomicI64::new(seq), AtomicBool::new(is_outlasted));
            Some(Arc::new(Met { run, incarnation, number, since, seq, entry, clock, parted }))
        });
        !is_outlasted
    }

    pub(crate) fn note(&self, incarnation: &[u8], seq: i64) {
        if let Some(met) = &*self.0.load()
            && met.incarnation == incarnation
        {
            met.seq.fetch_max(seq, Ordering::SeqCst);
        }
    }

    /// Notes that this process has written an entry.
    pub(crate) fn wrote(&self, incarnation: &[u8], entry: Entry) {
        self.note(incarnation, entry.0);
        if let Some(met) = &*self.0.load()
            && met.incarnation == incarnation
        {
            let mut last = met.entry.lock();
            if entry.0 <= last.0 && entry.1 > last.1 {
                // Written later, and has no greater number: data have gone back in time. What is there lacks this one.
                met.seq.fetch_max(last.0 + BACK, Ordering::SeqCst);
            }
            *last = later(*last, entry);
        }
    }

    /// Returns for how long this process has known an incarnation.
    pub(crate) fn known_for(&self, incarnation: &[u8]) -> Duration {
        let met = self.0.load();
        let met = met.as_ref().filter(|met| met.incarnation == incarnation);
        met.map_or(Duration::ZERO, |met| met.since.elapsed())
    }

    /// Returns the number of the last entry that is known to have been written in an incarnation; 0 if
    /// none is.
    pub(crate) fn seq(&self, incarnation: &[u8]) -> i64 {
        let met = self.0.load();
        let met = met.as_ref().filter(|met| met.incarnation == incarnation);
        met.map_or(0, |met| met.seq.load(Ordering::SeqCst))
    }

    /// Returns what is known of the last incarnation, whichever Redis process it lives on. One that is met later and is
    /// older is that of a Redis which was left.
    pub(crate) fn last(&self) -> Told {
        self.0.load().as_ref().map_or_else(Told::default, |met| met.known())
    }

    /// The same, if it lives on this Redis process: where a connection is still open to one that others have left, it may be
    /// in use.
    pub(crate) fn on(&self, run: u32) -> Told {
        let met = self.0.load();
        let met = met.as_ref().filter(|met| met.run == run);
        met.map_or_else(Told::default, |met| met.known())
    }

    /// Compares the clock of a Redis process, read just now, with the one that was read before; returns
    /// whether it has gone on as this machine's.
    pub(crate) fn goes_on(&self, run: u32, now: Clock) -> bool {
        let met = self.0.load();
        let Some(met) = met.as_ref().filter(|met| met.run == run) else { return true };
        let goes_on = met.clock.agrees(now);
        if !goes_on {
            met.parted.store(true, Ordering::SeqCst);
        }
        goes_on
    }
}
