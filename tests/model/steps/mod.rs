//! All that can happen next. Each file has an activity; whatever is read or written at once is one step.

mod check;
mod copy;
mod evidence;
mod faults;
mod fence;
mod insert;
mod join;
mod nulls;
mod rebuild;
mod time;

use crate::instance::{ASKED, Event, Model};
use crate::state::State;

/// The moments that can come next, and in words what leads there.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) to: Vec<(State, Option<Event>)>,
    /// Only if they are wanted: the search needs them for its traces alone.
    pub(crate) words: Option<Vec<String>>,
}

impl Steps {
    fn step(&mut self, state: State, words: impl FnOnce(&State) -> String) {
        self.event(None, state, words);
    }

    fn event(
        &mut self,
        event: impl Into<Option<Event>>,
        state: State,
        words: impl FnOnce(&State) -> String,
    ) {
        if let Some(said) = &mut self.words {
            said.push(words(&state));
        }
        self.to.push((state, event.into()));
    }

    fn clear(&mut self) {
        self.to.clear();
        if let Some(words) = &mut self.words {
            words.clear();
        }
    }
}

/// One process at one moment, and where what it does next is put.
struct Turn<'a> {
    model: &'a Model,
    state: &'a State,
    me: usize,
}

/// Lists all steps out of a state.
pub(crate) fn list(model: &Model, state: &State, steps: &mut Steps) {
    steps.clear();
    time::passes(model, state, steps);
    time::lease_expires(state, steps);
    time::record_drops(model, state, steps);
    for id in 0..model.of.ids {
        insert::create(model, state, id, steps);
    }
    for me in 0..2 {
        let process = &state.processes[me];
        if process.is_paused {
            faults::go_on(state, me, steps);
        } else if process.is_alive {
            let turn = Turn { model, state, me };
            turn.act(steps);
        }
    }
    faults::befall(model, state, steps);
}

impl Turn<'_> {
    fn act(&self, steps: &mut Steps) {
        self.join(steps);
        self.forget(steps);
        self.repeat(steps);
        self.rebuild(steps);
        if self.me == ASKED {
            self.load(steps);
            self.fence(steps);
            self.page(steps);
            self.check(steps);
            self.null(steps);
        }
    }
}
