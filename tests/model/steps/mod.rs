//! All that can happen next. What is read or written at once is one step.

mod check;
mod faults;
mod fence;
mod insert;
mod join;
mod load;
mod nulls;
mod question;
mod rebuild;

use crate::instance::{ASKED, Event, L, Model};
use crate::redis::{drop_entry, droppable};
use crate::state::{Creation, IDS, PROCESSES, Process, Stage, State};

/// Who does what, and why.
pub(crate) type Words = [&'static str; 3];

/// The states that can come next.
#[derive(Debug, Default)]
pub(crate) struct Steps(pub(crate) Vec<(State, Option<Event>, Words)>);

impl Steps {
    fn step(&mut self, state: State, words: Words) {
        self.0.push((state, None, words));
    }

    fn event(&mut self, event: impl Into<Option<Event>>, state: State, words: Words) {
        self.0.push((state, event.into(), words));
    }
}

/// One process at one moment.
struct Turn<'a> {
    model: &'a Model,
    state: &'a State,
    me: usize,
}

/// Lists all steps out of a state.
pub(crate) fn list(model: &Model, state: &State, steps: &mut Steps) {
    steps.0.clear();
    tick(model, state, steps);
    if state.redis.lease != 0 && state.expiries_left > 0 {
        let mut next = State { expiries_left: state.expiries_left - 1, ..*state };
        next.redis.lease = 0;
        steps.step(next, ["the lease", "expires", ""]);
    }
    if let Some(id) = droppable(model, state) {
        let mut next = *state;
        drop_entry(&mut next, id);
        steps.step(next, ["the record", "drops", IDS[id]]);
    }
    (0..model.of.ids).for_each(|id| insert::create(model, state, id, steps));
    for me in (0..2).filter(|me| state.processes[*me].is_alive) {
        let turn = Turn { model, state, me };
        turn.join(steps);
        turn.forget(steps);
        turn.repeat(steps);
        turn.rebuild(steps);
        if me == ASKED {
            turn.questions(steps);
            turn.null(steps);
        }
    }
    faults::befall(model, state, steps);
}

fn tick(model: &Model, state: &State, steps: &mut Steps) {
    if state.now == model.of.ticks {
        return;
    }
    let mut next = State { now: state.now + 1, ..*state };
    let now = next.now;
    let is_open = |one: &Creation| one.stage == Stage::Acknowledged;
    for creation in next.creations.iter_mut().filter(|one| is_open(one)) {
        let is_begun_later = model.of.deadline.is_some();
        let begun = if is_begun_later { creation.acknowledged } else { creation.executed };
        if now > begun + L {
            creation.to(Stage::Over);
        }
    }
    next.processes.iter_mut().for_each(|process| process.forget_old(model, now));
    steps.step(next, ["a tick", "passes", ""]);
}

impl Turn<'_> {
    fn name(&self) -> &'static str {
        PROCESSES[self.me]
    }

    fn process(&self) -> &Process {
        &self.state.processes[self.me]
    }

    /// A state in which something of this process is another.
    fn with(&self, change: impl FnOnce(&mut Process)) -> State {
        let mut next = *self.state;
        change(&mut next.processes[self.me]);
        next
    }
}
