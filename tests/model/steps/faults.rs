//! What befalls Redis and processes from outside.

use super::Steps;
use crate::instance::{Fault, Model};
use crate::state::{Meta, Process, Recent, Redis, Stage, State};

/// Old copies are made, and faults happen, while there are any left.
pub(super) fn befall(model: &Model, state: &State, steps: &mut Steps) {
    use Fault::{OldAll, OldBits, OldMeta, OldNext, OldRecent, Restart};
    if state.faults_left == 0 {
        return;
    }
    let needs_old = [OldAll, OldBits, OldMeta, OldNext, OldRecent, Restart];
    if state.old_left > 0 && model.of.faults.iter().any(|fault| needs_old.contains(fault)) {
        let old_left = state.old_left - 1;
        let next = State { old: Some(state.redis), old_left, ..*state };
        steps.step(next, ["an old copy", "is made of what Redis holds", ""]);
    }
    for fault in model.of.faults {
        if let Some(mut next) = fault.happens(model, state) {
            next.fault_happened();
            steps.step(next, ["FAULT:", fault.says(), ""]);
        }
    }
}

impl State {
    /// The last fault makes an old copy useless.
    pub(super) fn fault_happened(&mut self) {
        self.faults_left -= 1;
        if self.faults_left == 0 {
            (self.old, self.old_left) = (None, 0);
        }
    }

    /// Redis is another process, with these data.
    fn restart(&mut self, redis: Redis) {
        self.redis = redis;
        self.runs += 1;
        self.run = self.runs;
        self.processes.iter_mut().for_each(|process| process.is_connected = false);
    }

    fn die(&mut self, model: &Model) {
        self.processes[0] = Process::default();
        for id in (0..model.of.ids).filter(|id| model.of.inserter[*id] == 0) {
            let creation = &mut self.creations[id];
            if !matches!(creation.stage, Stage::Committed | Stage::Over) {
                creation.inserts_left = 0;
                creation.to(Stage::Over);
            }
        }
    }
}

impl Fault {
    /// The state after it, if it can happen.
    fn happens(self, model: &Model, state: &State) -> Option<State> {
        let mut next = *state;
        let redis = &mut next.redis;
        let is_possible = match self {
            Self::BitsLost => redis.bits.take().is_some(),
            Self::NextLost => redis.next.take().is_some(),
            Self::MetaLost => std::mem::take(&mut redis.meta) != Meta::default(),
            Self::Death => state.processes.iter().all(|process| process.is_alive),
            // It befalls an insert.
            Self::ReplyLost => false,
            _ => true,
        };
        match self {
            Self::Restart => next.restart(state.old?),
            Self::Empty => next.restart(Redis::default()),
            Self::FlushAll => *redis = Redis::default(),
            Self::OldAll => *redis = state.old?,
            Self::OldBits => redis.bits = state.old?.bits,
            Self::OldRecent => redis.recent = state.old?.recent,
            Self::OldMeta => redis.meta = state.old?.meta,
            Self::OldNext => redis.next = state.old?.next,
            Self::RecentLost => redis.recent = Recent::default(),
            Self::Death => next.die(model),
            Self::BitsLost | Self::NextLost | Self::MetaLost | Self::ReplyLost => {}
        }
        is_possible.then_some(next)
    }
}
