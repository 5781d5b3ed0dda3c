//! How far this process has seen an incarnation come. Data that have not come as far have gone back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arc_swap::ArcSwapOption;

use crate::store::link::transport::Clock;

/// The last incarnation that this process has met.
#[derive(Default)]
pub(crate) struct LastIncarnation(ArcSwapOption<Met>);

/// One incarnation.
struct Met {
    /// The Redis process that it lives on.
    run: u32,
    incarnation: Vec<u8>,
    /// Later ones have greater numbers.
    number: i64,
    /// The greatest number of a journal entry that is known to have been written.
    seq: AtomicI64,
    clock: Clock,
    /// Whether Redis's clock and this machine's have parted since.
    parted: AtomicBool,
}

impl Met {
    fn known(&self) -> Told {
        Told {
            incarnation: self.incarnation.clone(),
            number: self.number,
            seq: self.seq.load(Ordering::SeqCst),
            parted: self.parted.load(Ordering::SeqCst),
        }
    }
}

/// What a script is told of it.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) incarnation: Vec<u8>,
    pub(crate) number: i64,
    pub(crate) seq: i64,
    pub(crate) parted: bool,
}

impl LastIncarnation {
    /// Notes what a join was told.
    pub(crate) fn joined(&self, run: u32, incarnation: &[u8], number: i64, seq: i64, clock: Clock) {
        self.0.rcu(|met| {
            // Of three connections that join at a time, the last may tell of the earliest, or lead to a Redis of before.
            if let Some(met) = met
                && met.number > number
            {
                return Some(Arc::clone(met));
            }
            let known = met.as_ref().filter(|met| met.incarnation == incarnation);
            let seq = known.map_or(seq, |met| met.seq.load(Ordering::SeqCst).max(seq));
            let incarnation = incarnation.to_vec();
            let (seq, parted) = (AtomicI64::new(seq), AtomicBool::new(false));
            Some(Arc::new(Met { run, incarnation, number, seq, clock, parted }))
        });
    }

    /// Notes that an entry was written.
    pub(crate) fn note(&self, incarnation: &[u8], seq: i64) {
        if let Some(met) = &*self.0.load()
            && met.incarnation == incarnation
        {
            met.seq.fetch_max(seq, Ordering::SeqCst);
        }
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
