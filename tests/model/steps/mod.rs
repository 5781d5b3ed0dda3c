//! All that can happen next. What is read or written at once is one step.

mod faults;
mod fence;
mod insert;
mod nulls;
mod question;
mod rebuild;

use crate::instance::{ASKED, Instance};
use crate::rules::Rule;
use crate::state::{IDS, PROCESSES, Process, State};

/// Who does what, and why.
pub(crate) type Words = [&'static str; 3];
/// The states that can come next.
pub(crate) type Steps = Vec<(State, Words)>;

/// Lists all steps out of a state.
pub(crate) fn list(model: &Instance, state: &State, steps: &mut Steps) {
    steps.clear();
    let mut turn = Turn { model, state, me: 0, steps };
    turn.pass();
    for id in 0..model.ids {
        turn.me = model.inserter[id];
        turn.create(id);
    }
    // One that has ended is in no incarnation.
    for me in (0..2).filter(|me| state.processes[*me].incarnation > 0) {
        turn.me = me;
        turn.join();
        turn.forget();
        turn.repeat();
        turn.rebuild();
        if me == ASKED {
            turn.questions();
            turn.null();
        }
    }
    turn.befall();
}

/// One process at one moment, and the steps that were found.
struct Turn<'a> {
    model: &'a Instance,
    state: &'a State,
    me: usize,
    steps: &'a mut Steps,
}

impl<'a> Turn<'a> {
    fn has(&self, rule: Rule) -> bool {
        self.model.has(rule)
    }

    fn name(&self) -> &'static str {
        PROCESSES[self.me]
    }

    fn process(&self) -> &'a Process {
        &self.state.processes[self.me]
    }

    /// A state in which something of this process is another.
    fn with(&self, change: impl FnOnce(&mut Process)) -> State {
        let mut next = *self.state;
        change(&mut next.processes[self.me]);
        next
    }

    fn push(&mut self, next: State, words: Words) {
        self.steps.push((next, words));
    }

    fn step(&mut self, words: Words, change: impl FnOnce(&mut State)) {
        let mut next = *self.state;
        change(&mut next);
        self.push(next, words);
    }

    /// Time passes, the lease expires, the record drops an entry.
    fn pass(&mut self) {
        if self.state.now < self.model.ticks {
            self.step(["a tick", "passes", ""], |next| next.now += 1);
        }
        if self.state.redis.lease != 0 && self.state.expiries_left > 0 {
            self.step(["the lease", "expires", ""], |next| {
                next.expiries_left -= 1;
                next.redis.lease = 0;
            });
        }
        let mut next = *self.state;
        if let Some(id) = next.drop_oldest(self.model) {
            self.push(next, ["the record", "drops", IDS[id]]);
        }
    }

    /// Connects, joins or polls, where that changes anything.
    fn join(&mut self) {
        let mut next = *self.state;
        next.join(self.model, self.me);
        if next != *self.state {
            self.push(next, [self.name(), "joins or polls", ""]);
        }
    }

    /// Whether the process has a connection, and has joined what Redis holds now.
    fn is_joined(&self) -> bool {
        let process = self.process();
        process.is_connected && process.incarnation == self.state.redis.meta.incarnation
    }
}
