//! What Redis executes as one: the scripts of an insert and of a join, and how the record drops what is old.

use crate::instance::Instance;
use crate::rules::Rule::*;
use crate::state::{Filter, Redis, State};

impl Redis {
    /// Puts a live filter out of use whose stamp is not the last number.
    fn compare_stamp(&mut self, model: &Instance) {
        if let Some(bits) = &mut self.bits {
            bits.is_disproved |= model.has(R3Stamp) && bits.stamp != self.meta.last;
        }
    }

    /// A building filter under no lease of its own goes live no more.
    fn unlink_dead_next(&mut self) {
        self.next = self.next.filter(|next| next.nonce == self.lease);
    }
}

/// The number after another.
fn following(model: &Instance, before: u8, clock: &mut u8) -> u8 {
    let number = if model.has(R1Clock) { before.max(*clock) + 1 } else { before + 1 };
    *clock = number.max(*clock);
    number
}

impl State {
    /// The script of an insert, for one id. Only a call that numbers its ids alike has a number already.
    pub(crate) fn insert(&mut self, model: &Instance, id: usize, number: Option<u8>) {
        let redis = &mut self.redis;
        redis.compare_stamp(model);
        redis.unlink_dead_next();
        let before = redis.meta.last;
        let greatest = redis.recent.greatest();
        let known = if model.has(R4Greatest) { greatest.max(before) } else { before };
        if model.has(R4Greatest) && greatest != before {
            redis.recent.raise_floor(known, self.now, model.has(R12Raised));
        }
        let last = number.unwrap_or_else(|| following(model, known, &mut self.clock));
        redis.meta.last = last;
        redis.recent.numbers[id] = last;
        redis.recent.times[id] = self.now;
        let live = redis.bits.iter_mut().filter(|bits| !bits.is_disproved);
        let is_raised = |next: &Filter| next.stamp == before || !model.has(R5Stamp);
        let next = redis.next.iter_mut().filter(|next| model.has(R11Both) && is_raised(next));
        for filter in live.chain(next) {
            filter.ids.add(id);
            filter.stamp = last;
        }
        if model.has(R19Deleted) {
            redis.nulls.remove(id);
        }
    }

    /// The script of a join, which each poll repeats.
    pub(crate) fn join(&mut self, model: &Instance, me: usize) {
        let is_new = self.redis.meta.incarnation == 0;
        if is_new || self.redis.meta.run != self.run {
            self.begin_incarnation(model, is_new);
        }
        let redis = &mut self.redis;
        redis.compare_stamp(model);
        redis.unlink_dead_next();
        let process = &mut self.processes[me];
        process.is_connected = true;
        if model.settling.is_some() {
            redis.meta.is_settled |= process.knows_settled;
            process.knows_settled = redis.meta.is_settled;
        }
        if process.incarnation == redis.meta.incarnation {
            return;
        }
        // It says what it cannot repeat, and notes what it has to.
        process.incarnation = redis.meta.incarnation;
        if model.has(R9Vouched) && process.forgotten > 0 {
            let until = process.forgotten + model.window();
            redis.meta.unvouched = redis.meta.unvouched.max(until);
        }
        if model.has(R9Repeated) {
            process.repeats = process.own;
        }
    }

    fn begin_incarnation(&mut self, model: &Instance, is_new: bool) {
        let Redis { meta, recent, bits, .. } = &mut self.redis;
        let of_bits = bits.filter(|_| is_new).unwrap_or_default();
        let known = meta.last.max(recent.greatest()).max(of_bits.stamp);
        self.incarnations += 1;
        meta.incarnation = self.incarnations;
        meta.run = self.run;
        meta.last = following(model, known, &mut self.clock);
        meta.epoch = meta.epoch.max(of_bits.token);
        // What came before is repeated, so this floor does not count.
        recent.raise_floor(meta.last, self.now, false);
        if let Some(bits) = bits {
            bits.is_disproved |= model.has(R8Disproved);
        }
    }

    /// The record drops its oldest entry, if it may, and its floor rises, unless it is above already. Returns which.
    pub(crate) fn drop_oldest(&mut self, model: &Instance) -> Option<usize> {
        let recent = &mut self.redis.recent;
        let there = (0..model.ids).filter(|id| recent.numbers[*id] > 0);
        let oldest = there.min_by_key(|id| recent.numbers[*id])?;
        let (number, time) = (recent.numbers[oldest], recent.times[oldest]);
        if number > recent.floor {
            recent.raise_floor(number, time, true);
        }
        (recent.numbers[oldest], recent.times[oldest]) = (0, 0);
        (self.now > time + model.kept || model.drops_early).then_some(oldest)
    }
}
