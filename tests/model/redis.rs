//! What Redis executes as one: the scripts of an insert and of a join, and how the record drops what is old.

use crate::instance::Instance;
use crate::rules::Rule::*;
use crate::state::{Filter, Redis, State};

impl Redis {
    /// A building filter under no lease of its own goes live no more.
    fn unlink_dead_next(&mut self) {
        self.next = self.next.filter(|next| next.nonce == self.lease);
    }

    fn disprove(&mut self) {
        self.bits.iter_mut().for_each(|bits| bits.is_disproved = true);
    }

    /// Puts a live filter out of use whose stamp is not the last number.
    fn compare_stamp(&mut self, model: &Instance) {
        if model.has(R3Stamp) && self.bits.is_some_and(|bits| bits.stamp != self.meta.last) {
            self.disprove();
        }
    }
}

impl State {
    /// The number after another.
    fn number(&mut self, model: &Instance, before: u8) -> u8 {
        let clock = if model.has(R1Clock) { self.clock } else { 0 };
        let number = before.max(clock) + 1;
        self.clock = self.clock.max(number);
        number
    }

    /// The script of an insert, for one id. Only a call that numbers its ids alike has a number already.
    pub(crate) fn insert(&mut self, model: &Instance, id: usize, number: Option<u8>) {
        let redis = &mut self.redis;
        redis.compare_stamp(model);
        redis.unlink_dead_next();
        let before = redis.meta.last;
        let greatest = redis.recent.greatest();
        if model.has(R4Greatest) && greatest != before {
            redis.meta.last = before.max(greatest);
            redis.recent.raise_floor(redis.meta.last, self.now, model.has(R12Raised));
        }
        let last = self.redis.meta.last;
        let last = number.unwrap_or_else(|| self.number(model, last));
        let redis = &mut self.redis;
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
        let redis = &mut self.redis;
        redis.unlink_dead_next();
        let is_new = redis.meta.incarnation == 0;
        if is_new || redis.meta.run != self.run {
            self.begin_incarnation(model, is_new);
        }
        let redis = &mut self.redis;
        redis.compare_stamp(model);
        let process = &mut self.processes[me];
        if model.settling.is_some() {
            redis.meta.is_settled |= process.knows_settled;
            process.knows_settled = redis.meta.is_settled;
        }
        process.is_connected = true;
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
        let Redis { meta, recent, bits, .. } = self.redis;
        let of_bits = bits.filter(|_| is_new).unwrap_or_default();
        let known = meta.last.max(recent.greatest()).max(of_bits.stamp);
        let first = self.number(model, known);
        self.incarnations += 1;
        let redis = &mut self.redis;
        redis.meta.incarnation = self.incarnations;
        redis.meta.run = self.run;
        redis.meta.last = first;
        redis.meta.epoch = meta.epoch.max(of_bits.token);
        // What came before is repeated, so this floor does not count.
        redis.recent.raise_floor(first, self.now, false);
        if model.has(R8Disproved) {
            redis.disprove();
        }
    }

    /// Whether the record may drop its oldest entry, and which that is.
    pub(crate) fn droppable(&self, model: &Instance) -> Option<usize> {
        let recent = &self.redis.recent;
        let there = (0..model.ids).filter(|id| recent.numbers[*id] > 0);
        let oldest = there.min_by_key(|id| recent.numbers[*id])?;
        let is_old = self.now > recent.times[oldest] + model.kept;
        (is_old || model.drops_early).then_some(oldest)
    }

    /// The record drops an entry; its floor rises, unless it is above already.
    pub(crate) fn drop_entry(&mut self, id: usize) {
        let recent = &mut self.redis.recent;
        let (number, time) = (recent.numbers[id], recent.times[id]);
        if number > recent.floor {
            recent.raise_floor(number, time, true);
        }
        (recent.numbers[id], recent.times[id]) = (0, 0);
    }
}
