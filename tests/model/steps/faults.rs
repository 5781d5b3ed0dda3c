//! What befalls Redis and processes from outside.

use super::Turn;
use crate::instance::Instance;
use crate::state::Fault::{self, *};
use crate::state::{Creation, Meta, Process, Recent, Redis, Stage, State};

impl Turn<'_> {
    /// An old copy is made, and faults happen, while there are any left.
    pub(super) fn befall(&mut self) {
        let state = self.state;
        let faults = if state.faults_left == 0 { &[] } else { self.model.faults };
        let needs_old = |fault: &Fault| {
            matches!(fault, Restart | OldAll | OldBits | OldRecent | OldMeta | OldNext)
        };
        if state.old.is_none() && faults.iter().any(needs_old) {
            let words = ["an old copy", "is made of what Redis holds", ""];
            self.step(words, |next| next.old = Some(state.redis));
        }
        for fault in faults {
            if let Some(mut next) = fault.happens(self.model, state) {
                next.faults_left -= 1;
                // The last fault makes an old copy useless.
                next.old = next.old.filter(|_| next.faults_left > 0);
                self.push(next, ["FAULT:", (*fault).into(), ""]);
            }
        }
    }
}

impl Fault {
    /// The state after it, if it changes anything.
    fn happens(self, model: &Instance, state: &State) -> Option<State> {
        let mut next = *state;
        let redis = &mut next.redis;
        match self {
            Restart | Empty => {
                *redis = if self == Empty { Redis::default() } else { state.old? };
                next.run += 1;
                next.processes.iter_mut().for_each(|process| process.is_connected = false);
            }
            FlushAll => *redis = Redis::default(),
            OldAll => *redis = state.old?,
            OldBits => redis.bits = state.old?.bits,
            OldRecent => redis.recent = state.old?.recent,
            OldMeta => redis.meta = state.old?.meta,
            OldNext => redis.next = state.old?.next,
            BitsLost => redis.bits = None,
            RecentLost => redis.recent = Recent::default(),
            MetaLost => redis.meta = Meta::default(),
            NextLost => redis.next = None,
            ReplyLost => {
                let is_executed = |one: &&mut Creation| one.stage == Stage::Executed;
                next.creations.iter_mut().filter(is_executed).for_each(|of| of.to(Stage::Idle));
            }
            Death => {
                next.processes[0] = Process::default();
                let creations = next.creations.iter_mut().zip(model.inserter);
                for (creation, _) in creations.filter(|(_, inserter)| *inserter == 0) {
                    *creation = Creation { stage: Stage::Over, ..Creation::default() };
                }
            }
        }
        (next != *state).then_some(next)
    }
}
