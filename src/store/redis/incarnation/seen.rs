//! The last number that this process has seen in an incarnation. Data with a lower one have gone back in time.

use std::time::Duration;

use parking_lot::Mutex;

use crate::store::clock::Clock;

/// How far an incarnation's age by Redis's clock may be beyond its age by this machine's.
const SLACK: Duration = Duration::from_secs(1);

/// The last incarnation that this process has met.
#[derive(Default)]
pub(crate) struct LastIncarnation(Mutex<Option<Met>>);

struct Met {
    run: u32,
    told: Told,
    clock: Clock,
}

#[derive(Clone, Default)]
pub(crate) struct Told {
    pub(crate) incarnation: Vec<u8>,
    /// Its first number. Later incarnations have greater ones.
    pub(crate) number: i64,
    /// The number of the last insert that this process knows of.
    pub(crate) last: i64,
    /// Whether Redis's clock and this machine's have parted since.
    pub(crate) parted: bool,
}

impl LastIncarnation {
    /// Notes what a join was told; returns whether Redis's clock has gone on as this machine's.
    pub(crate) fn joined(&self, run: u32, mut told: Told, age: Duration, clock: Clock) -> bool {
        let mut last = self.0.lock();
        if let Some(met) = &mut *last {
            let is_same = met.told.incarnation == told.incarnation;
            if is_same && met.run == run && !met.clock.agrees(clock) {
                met.told.parted = true;
                return false;
            }
            if met.told.number > told.number {
                // The incarnation of a Redis that was left.
                return true;
            }
            // One that has begun since the last one was met cannot be older than that.
            let is_next = met.run == run && met.told.number < told.number;
            told.parted = is_next && age > met.clock.age() + SLACK;
            if is_same {
                told.last = told.last.max(met.told.last);
            }
        }
        let goes_on = !told.parted;
        *last = Some(Met { run, told, clock });
        goes_on
    }

    pub(crate) fn note(&self, incarnation: &[u8], last: i64) {
        if let Some(met) = &mut *self.0.lock()
            && met.told.incarnation == incarnation
        {
            met.told.last = met.told.last.max(last);
        }
    }

    /// Returns the number of the last insert that this process knows of in an incarnation, or 0.
    pub(crate) fn last_in(&self, incarnation: &[u8]) -> i64 {
        let met = self.0.lock();
        let met = met.as_ref().filter(|met| met.told.incarnation == incarnation);
        met.map_or(0, |met| met.told.last)
    }

    /// Returns the last incarnation that was met, on this Redis process if one is named.
    pub(crate) fn last(&self, on: Option<u32>) -> Told {
        let met = self.0.lock();
        let met = met.as_ref().filter(|met| on.is_none_or(|run| met.run == run));
        met.map(|met| met.told.clone()).unwrap_or_default()
    }
}
