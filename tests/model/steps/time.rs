//! What happens by time alone: transactions end, processes forget, a lease expires, the record drops what is old.

use super::Steps;
use crate::instance::{L, Model};
use crate::redis::{drop_entry, droppable};
use crate::rules::Rule;
use crate::state::{IDS, Process, Stage, State};

/// A tick.
pub(super) fn passes(model: &Model, state: &State, steps: &mut Steps) {
    if state.now == model.of.ticks {
        return;
    }
    let mut next = *state;
    next.now += 1;
    for creation in &mut next.creations {
        let begun = match model.of.deadline {
            Some(_) => creation.acknowledged,
            None => creation.executed,
        };
        if creation.stage == Stage::Acknowledged && next.now > begun + L {
            creation.to(Stage::Over);
        }
    }
    let now = next.now;
    next.processes.iter_mut().for_each(|process| process.forget_old(model, now));
    steps.step(next, |next| format!("-- it is {}", next.now));
}

impl Process {
    fn forget_old(&mut self, model: &Model, now: u8) {
        for id in 0..model.of.ids {
            let is_old = self.own.has(id) && now > self.own_times[id] + model.of.kept;
            if is_old && !(self.repeats.has(id) && model.has(Rule::R9Kept)) {
                self.forget_own(model, id);
            }
        }
    }

    /// Forgets an own insert, and notes until when it has no say about such.
    pub(super) fn forget_own(&mut self, model: &Model, id: usize) {
        self.own.remove(id);
        self.repeats.remove(id);
        if model.has(Rule::R9Vouched) {
            self.forgotten = self.forgotten.max(self.own_times[id] + 1);
        }
        self.own_times[id] = 0;
    }
}

pub(super) fn lease_expires(state: &State, steps: &mut Steps) {
    if state.redis.lease == 0 || state.expiries_left == 0 {
        return;
    }
    let mut next = *state;
    next.expiries_left -= 1;
    next.redis.lease = 0;
    steps.step(next, |_| "the lease expires".to_owned());
}

pub(super) fn record_drops(model: &Model, state: &State, steps: &mut Steps) {
    let Some(id) = droppable(model, state) else { return };
    let mut next = *state;
    drop_entry(&mut next, id);
    steps.step(next, |next| {
        format!("the record drops {}; its floor is {}", IDS[id], next.redis.recent.floor)
    });
}
