//! How far this process has seen an incarnation come. Data that have not come as far have gone back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use crate::store::redis::link::wire::Clock;

/// After so long without a look at Redis's clock this process cannot say how much time has passed for it.
const CLOCK_HOLDS: Duration = Duration::from_secs(600);

/// The last incarnation that this process has met.
#[derive(Default)]
pub(crate) struct Seen(ArcSwapOption<Met>);

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
}

/// What a script is told of it.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) incarnation: Vec<u8>,
    pub(crate) number: i64,
    pub(crate) seq: i64,
    /// What Redis's clock should say now, ms.
    pub(crate) now_ms: Option<i64>,
}

impl Seen {
    /// Notes what a join was told.
    pub(crate) fn joined(&self, run: u32, incarnation: &[u8], number: i64, seq: i64, clock: Clock) {
        self.0.rcu(|met| {
            // Of three connections that join at a time, the last may tell of the earliest.
            if let Some(met) = met
                && met.run == run
                && met.number > number
            {
                return Some(Arc::clone(met));
            }
            let known = met.as_ref().filter(|met| met.incarnation == incarnation);
            let seq = known.map_or(seq, |met| met.seq.load(Ordering::SeqCst).max(seq));
            let incarnation = incarnation.to_vec();
            Some(Arc::new(Met { run, incarnation, number, seq: AtomicI64::new(seq), clock }))
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

    /// Returns what is known of the last incarnation on a Redis process.
    pub(crate) fn known(&self, run: u32) -> Known {
        let met = self.0.load();
        let Some(met) = met.as_ref().filter(|met| met.run == run) else { return Known::default() };
        let now = Instant::now();
        let holds = met.clock.age(now) < CLOCK_HOLDS;
        Known {
            incarnation: met.incarnation.clone(),
            number: met.number,
            seq: met.seq.load(Ordering::SeqCst),
            now_ms: holds.then(|| met.clock.at(now) / 1000),
        }
    }
}
