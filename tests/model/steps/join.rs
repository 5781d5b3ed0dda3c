//! Joins and polls, and the repetition of what another incarnation may lack.

use super::{Steps, Turn};
use crate::redis::{Number, insert, join};
use crate::rules::Rule;
use crate::state::{IDS, PROCESSES, Process, State};

impl Turn<'_> {
    pub(super) fn name(&self) -> &'static str {
        PROCESSES[self.me]
    }

    pub(super) fn process(&self) -> &Process {
        &self.state.processes[self.me]
    }

    /// A state in which something of this process is another.
    pub(super) fn with(&self, change: impl FnOnce(&mut Process)) -> State {
        let mut next = *self.state;
        change(&mut next.processes[self.me]);
        next
    }

    /// Connects, joins or polls, where that changes anything.
    pub(super) fn join(&self, steps: &mut Steps) {
        let (process, redis) = (self.process(), &self.state.redis);
        let is_joined = process.is_connected
            && process.run == self.state.run
            && redis.meta.incarnation != 0
            && process.incarnation == redis.meta.incarnation;
        let has_odd_stamp = self.model.has(Rule::R3Stamp) && redis.is_stamp_odd();
        let has_odd_record = self.model.has(Rule::R4Greatest)
            && redis.meta.incarnation != 0
            && redis.recent.greatest() != redis.meta.last;
        if is_joined && !has_odd_stamp && !has_odd_record && !redis.has_dead_next() {
            return;
        }
        let mut next = *self.state;
        let begins = join(self.model, &mut next, self.me);
        steps.step(next, |next| {
            let process = &next.processes[self.me];
            let does = if begins { "begins" } else { "joins or polls" };
            let name = self.name();
            match process.repeats.is_empty() {
                true => format!("{name} {does} incarnation {}", process.incarnation),
                false => format!(
                    "{name} {does} incarnation {}, and has {} to repeat",
                    process.incarnation, process.repeats
                ),
            }
        });
    }

    /// Its list of own inserts is full.
    pub(super) fn forget(&self, steps: &mut Steps) {
        if !self.model.of.forgets_early {
            return;
        }
        let process = self.process();
        for id in (0..2).filter(|id| process.own.has(*id) && !process.repeats.has(*id)) {
            let next = self.with(|process| process.forget_own(self.model, id));
            steps.step(next, |_| format!("{} forgets that it inserted {}", self.name(), IDS[id]));
        }
    }

    pub(super) fn repeat(&self, steps: &mut Steps) {
        let process = self.process();
        let is_joined = process.incarnation == self.state.redis.meta.incarnation;
        if !process.is_connected || !is_joined {
            return;
        }
        for id in (0..2).filter(|id| process.repeats.has(*id)) {
            let mut next = self.with(|process| process.repeats.remove(id));
            insert(self.model, &mut next, id, Number::New);
            steps.step(next, |next| {
                let last = next.redis.meta.last;
                format!("{} repeats its insert of {}: number {last}", self.name(), IDS[id])
            });
        }
    }

    /// Whether the process believes in an absence: its session is joined, and Redis has its own inserts.
    pub(super) fn believes(&self) -> bool {
        let process = self.process();
        let has_repeated = process.repeats.is_empty() || !self.model.has(Rule::R20Repeated);
        process.is_connected && process.incarnation != 0 && has_repeated
    }

    /// Whether a filter settles no more; a process that has once read so knows it.
    pub(super) fn is_settled(&self, next: &mut State) -> bool {
        let Some(settling) = self.model.of.settling else { return true };
        if !self.model.has(Rule::R20Rebuild) {
            return next.now > settling.settles;
        }
        next.processes[self.me].knows_settled |= next.redis.meta.is_settled;
        next.redis.meta.is_settled
    }
}

/// Whether all processes that live and do not stand still have joined, and repeated theirs.
pub(super) fn have_repeated(state: &State) -> bool {
    let mut running = state.processes.iter().filter(|one| one.is_alive && !one.is_paused);
    running.all(|one| one.incarnation == state.redis.meta.incarnation && one.repeats.is_empty())
}
