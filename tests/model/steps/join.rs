//! Joins and polls, what a process forgets, and what it repeats in another incarnation.

use super::Turn;
use crate::instance::Instance;
use crate::rules::Rule::*;
use crate::state::{IDS, Ids, Process, State};

impl Turn<'_> {
    /// Connects, joins or polls, where that changes anything.
    pub(super) fn join(&mut self) {
        let mut next = *self.state;
        next.join(self.model, self.me);
        if next != *self.state {
            self.push(next, [self.name(), "joins or polls", ""]);
        }
    }

    /// The list of own inserts is full.
    pub(super) fn forget(&mut self) {
        let Process { own, repeats, .. } = self.process();
        let may = |id: &usize| self.model.forgets_early && own.has(*id) && !repeats.has(*id);
        for id in (0..2).filter(may) {
            let next = self.with(|process| process.forget(self.model, id));
            self.push(next, [self.name(), "forgets its insert of", IDS[id]]);
        }
    }

    pub(super) fn repeat(&mut self) {
        let process = self.process();
        let may = process.is_connected && self.is_joined();
        for id in (0..2).filter(|id| may && process.repeats.has(*id)) {
            let mut next = self.with(|process| process.repeats.remove(id));
            next.insert(self.model, id, None);
            self.push(next, [self.name(), "repeats its insert of", IDS[id]]);
        }
    }

    /// Whether the process has joined what Redis holds now.
    pub(super) fn is_joined(&self) -> bool {
        self.process().incarnation == self.state.redis.meta.incarnation
    }

    /// Whether the process believes in an absence: its session is joined, and Redis has its own inserts.
    pub(super) fn believes(&self) -> bool {
        let process = self.process();
        process.is_connected && (process.repeats == Ids::default() || !self.has(R20Repeated))
    }

    /// Whether the filter settles no more; who has once read so knows it.
    pub(super) fn is_settled(&self, next: &mut State) -> bool {
        let Some((_, settles)) = self.model.settling else { return true };
        next.processes[self.me].knows_settled |= next.redis.meta.is_settled;
        if self.has(R20Rebuild) { next.redis.meta.is_settled } else { next.now > settles }
    }
}

impl Process {
    pub(super) fn forget_old(&mut self, model: &Instance, now: u8) {
        for id in 0..2 {
            let is_old = now > self.own_times[id] + model.kept;
            let is_due = self.repeats.has(id) && model.has(R9Kept);
            if self.own.has(id) && is_old && !is_due {
                self.forget(model, id);
            }
        }
    }

    fn forget(&mut self, model: &Instance, id: usize) {
        self.own.remove(id);
        self.repeats.remove(id);
        if model.has(R9Vouched) {
            self.forgotten = self.forgotten.max(self.own_times[id] + 1);
        }
        self.own_times[id] = 0;
    }
}
