//! Joins and polls, what a process forgets, and what it repeats in another incarnation.

use super::{Steps, Turn};
use crate::instance::Model;
use crate::redis::{insert, join};
use crate::rules::Rule;
use crate::state::{IDS, Process, State};

impl Turn<'_> {
    /// Connects, joins or polls, where that changes anything.
    pub(super) fn join(&self, steps: &mut Steps) {
        let (process, redis, model) = (self.process(), &self.state.redis, self.model);
        let is_joined = process.is_connected
            && process.run == self.state.run
            && redis.meta.incarnation != 0
            && self.is_joined();
        let is_odd = model.has(Rule::R3Stamp) && redis.is_stamp_odd()
            || model.has(Rule::R4Greatest) && redis.recent.greatest() != redis.meta.last;
        if !is_joined || is_odd || redis.has_dead_next() {
            let mut next = *self.state;
            join(model, &mut next, self.me);
            steps.step(next, [self.name(), "joins or polls", ""]);
        }
    }

    /// The list of own inserts is full.
    pub(super) fn forget(&self, steps: &mut Steps) {
        let Process { own, repeats, .. } = self.process();
        let may = |id: &usize| self.model.of.forgets_early && own.has(*id) && !repeats.has(*id);
        for id in (0..2).filter(may) {
            let next = self.with(|process| process.forget(self.model, id));
            steps.step(next, [self.name(), "forgets its insert of", IDS[id]]);
        }
    }

    pub(super) fn is_joined(&self) -> bool {
        self.process().incarnation == self.state.redis.meta.incarnation
    }

    pub(super) fn repeat(&self, steps: &mut Steps) {
        let process = self.process();
        let may = process.is_connected && self.is_joined();
        for id in (0..2).filter(|id| may && process.repeats.has(*id)) {
            let mut next = self.with(|process| process.repeats.remove(id));
            insert(self.model, &mut next, id, None);
            steps.step(next, [self.name(), "repeats its insert of", IDS[id]]);
        }
    }

    /// Whether the process believes in an absence: its session is joined, and Redis has its own inserts.
    pub(super) fn believes(&self) -> bool {
        let process = self.process();
        let has_repeated = process.repeats == Default::default();
        process.is_connected && (has_repeated || !self.model.has(Rule::R20Repeated))
    }

    /// Whether the filter settles no more; who has once read so knows it.
    pub(super) fn is_settled(&self, next: &mut State) -> bool {
        let Some((_, settles)) = self.model.of.settling else { return true };
        next.processes[self.me].knows_settled |= next.redis.meta.is_settled;
        match self.model.has(Rule::R20Rebuild) {
            true => next.redis.meta.is_settled,
            false => next.now > settles,
        }
    }
}

impl Process {
    pub(super) fn forget_old(&mut self, model: &Model, now: u8) {
        let is_old = |id, time| now > time + model.of.kept && self.own.has(id);
        let old = [0, 1].map(|id| is_old(id, self.own_times[id]));
        for id in (0..2).filter(|id| old[*id]) {
            if self.repeats.has(id) && model.has(Rule::R9Kept) {
                continue;
            }
            self.forget(model, id);
        }
    }

    fn forget(&mut self, model: &Model, id: usize) {
        self.own.remove(id);
        self.repeats.remove(id);
        if model.has(Rule::R9Vouched) {
            self.forgotten = self.forgotten.max(self.own_times[id] + 1);
        }
        self.own_times[id] = 0;
    }
}
