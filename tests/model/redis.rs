//! What Redis executes as one: the scripts of an insert and of a join, and how the record drops what is old.

use crate::instance::Model;
use crate::rules::Rule;
use crate::state::{Process, Redis, State};

impl Redis {
    /// A building filter under no lease of its own goes live no more.
    pub(crate) fn has_dead_next(&self) -> bool {
        self.next.is_some_and(|next| next.nonce != self.lease)
    }

    pub(crate) fn unlink_dead_next(&mut self) {
        if self.has_dead_next() {
            self.next = None;
        }
    }

    /// Whether the live filter has another stamp than the last number.
    pub(crate) fn is_stamp_odd(&self) -> bool {
        self.bits.is_some_and(|bits| !bits.is_disproved && bits.stamp != self.meta.last)
    }

    pub(crate) fn disprove(&mut self) {
        if let Some(bits) = &mut self.bits {
            bits.is_disproved = true;
        }
    }
}

/// The script of an insert, for one id. Only a call that numbers its ids alike has a number already.
pub(crate) fn insert(model: &Model, state: &mut State, id: usize, number: Option<u8>) {
    let redis = &mut state.redis;
    if model.has(Rule::R3Stamp) && redis.is_stamp_odd() {
        redis.disprove();
    }
    let before = redis.meta.last;
    redis.unlink_dead_next();
    if model.has(Rule::R4Greatest) && redis.recent.greatest() != before {
        let floor = redis.recent.greatest().max(before);
        redis.recent.raise_floor(floor, state.now, model.has(Rule::R12Raised));
        redis.meta.last = floor;
    }
    let clock = if model.has(Rule::R1Clock) { state.clock } else { 0 };
    let last = number.unwrap_or(redis.meta.last.max(clock) + 1);
    state.clock = state.clock.max(last);
    redis.meta.last = last;
    (redis.recent.numbers[id], redis.recent.times[id]) = (last, state.now);
    if let Some(bits) = redis.bits.as_mut().filter(|bits| !bits.is_disproved) {
        bits.ids.add(id);
        bits.stamp = last;
    }
    if let Some(next) = &mut redis.next
        && model.has(Rule::R11Both)
        && (!model.has(Rule::R5Stamp) || next.stamp == before)
    {
        next.ids.add(id);
        next.stamp = last;
    }
    if model.has(Rule::R19Deleted) {
        redis.nulls.remove(id);
    }
}

/// The script of a join, which each poll repeats.
pub(crate) fn join(model: &Model, state: &mut State, me: usize) {
    let (now, run) = (state.now, state.run);
    let redis = &mut state.redis;
    redis.unlink_dead_next();
    let is_new = redis.meta.incarnation == 0;
    if is_new || redis.meta.run != run {
        state.incarnations += 1;
        (redis.meta.incarnation, redis.meta.run) = (state.incarnations, run);
        let of_bits = redis.bits.filter(|_| is_new).unwrap_or_default();
        let known = redis.meta.last.max(redis.recent.greatest()).max(of_bits.stamp) + 1;
        let is_ahead = known > state.clock || !model.has(Rule::R1Clock);
        redis.meta.last = if is_ahead { known } else { state.clock + 1 };
        redis.meta.epoch = redis.meta.epoch.max(of_bits.token);
        // What came before is repeated.
        redis.recent.raise_floor(redis.meta.last, now, false);
        state.clock = state.clock.max(redis.meta.last);
        if model.has(Rule::R8Disproved) {
            redis.disprove();
        }
    }
    if model.has(Rule::R3Stamp) && redis.is_stamp_odd() {
        redis.disprove();
    }
    if model.has(Rule::R4Greatest) && redis.recent.greatest() != redis.meta.last {
        redis.meta.last = redis.meta.last.max(redis.recent.greatest());
        redis.recent.raise_floor(redis.meta.last, now, model.has(Rule::R12Raised));
        if redis.is_stamp_odd() {
            redis.disprove();
        }
    }
    let process = &mut state.processes[me];
    if model.of.settling.is_some() {
        redis.meta.is_settled |= process.knows_settled;
        process.knows_settled = redis.meta.is_settled;
    }
    (process.is_connected, process.run) = (true, run);
    if process.incarnation != redis.meta.incarnation {
        enter(model, redis, process);
    }
}

/// A process meets another incarnation: it says what it cannot repeat, and notes what it has to.
fn enter(model: &Model, redis: &mut Redis, process: &mut Process) {
    if model.has(Rule::R9Vouched) && process.forgotten > 0 {
        let until = process.forgotten + model.window();
        redis.meta.unvouched = redis.meta.unvouched.max(until);
    }
    process.incarnation = redis.meta.incarnation;
    if model.has(Rule::R9Repeated) {
        process.repeats = process.own;
    }
}

/// Whether the record may drop its oldest entry, and which that is.
pub(crate) fn droppable(model: &Model, state: &State) -> Option<usize> {
    let recent = &state.redis.recent;
    let there = (0..model.of.ids).filter(|id| recent.numbers[*id] > 0);
    let oldest = there.min_by_key(|id| recent.numbers[*id])?;
    let is_old = state.now > recent.times[oldest] + model.of.kept;
    (is_old || model.of.drops_early).then_some(oldest)
}

/// The record drops an entry; its floor rises, unless it is above already.
pub(crate) fn drop_entry(state: &mut State, id: usize) {
    let recent = &mut state.redis.recent;
    if recent.numbers[id] > recent.floor {
        recent.raise_floor(recent.numbers[id], recent.times[id], true);
    }
    (recent.numbers[id], recent.times[id]) = (0, 0);
}
