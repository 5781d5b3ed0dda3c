//! How far this process has seen an incarnation come. Data that have not come as far have gone back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::store::link::transport::Clock;

/// How far an incarnation's age by Redis's clock may be beyond its age by this machine's.
const SLACK: Duration = Duration::from_secs(1);

/// The last incarnation that this process has met.
#[derive(Default)]
pub(crate) struct LastIncarnation(ArcSwapOption<Met>);

struct Met {
    /// The Redis process that it lives on.
    run: u32,
    incarnation: Vec<u8>,
    /// Later ones have greater numbers.
    number: i64,
    /// The greatest number of an insert that is known to have been made.
    last: AtomicI64,
    clock: Clock,
    /// Whether Redis's clock and this machine's have parted since.
    parted: AtomicBool,
}

impl Met {
    fn known(&self) -> Told {
        Told {
            incarnation: self.incarnation.clone(),
            number: self.number,
            last: self.last.load(Ordering::SeqCst),
            parted: self.parted.load(Ordering::SeqCst),
        }
    }
}

/// What a script is told of it.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) incarnation: Vec<u8>,
    pub(crate) number: i64,
    pub(crate) last: i64,
    pub(crate) parted: bool,
}

impl LastIncarnation {
    /// Notes what a join was told; returns whether Redis's clock has gone on as this machine's in an incarnation that has
    /// begun since the last one was met: it cannot be older than that.
    pub(crate) fn joined(
        &self,
        run: u32,
        incarnation: &[u8],
        number: i64,
        last: i64,
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
            let last = known.map_or(last, |met| met.last.load(Ordering::SeqCst).max(last));
            let incarnation = incarnation.to_vec();
            let (last, parted) = (AtomicI64::new(last), AtomicBool::new(is_outlasted));
            Some(Arc::new(Met { run, incarnation, number, last, clock, parted }))
        });
        !is_outlasted
    }

    /// Notes the number of an insert that was made.
    pub(crate) fn note(&self, incarnation: &[u8], last: i64) {
        if let Some(met) = &*self.0.load()
            && met.incarnation == incarnation
        {
            met.last.fetch_max(last, Ordering::SeqCst);
        }
    }

    /// Returns the number of the last insert that is known to have been made in an incarnation; 0 if
    /// none is.
    pub(crate) fn last_in(&self, incarnation: &[u8]) -> i64 {
        let met = self.0.load();
        let met = met.as_ref().filter(|met| met.incarnation == incarnation);
        met.map_or(0, |met| met.last.load(Ordering::SeqCst))
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
