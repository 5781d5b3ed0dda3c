//! What befalls Redis and processes from outside.

use super::Steps;
use crate::instance::{Fault, Model};
use crate::state::{Meta, PROCESSES, Process, Recent, Redis, Stage, State};

/// Old copies are made, and faults happen, while there are any left.
pub(super) fn befall(model: &Model, state: &State, steps: &mut Steps) {
    if state.faults_left == 0 {
        return;
    }
    if state.old_left > 0 && model.of.faults.iter().any(|fault| fault.needs_old()) {
        let mut next = *state;
        (next.old, next.old_left) = (Some(state.redis), state.old_left - 1);
        steps.step(next, |next| {
            format!("an old copy is made of what Redis holds: last {}", next.redis.meta.last)
        });
    }
    for fault in model.of.faults {
        if let Some(mut next) = fault.happens(model, state) {
            next.fault_happened();
            steps.step(next, |_| format!("FAULT: {}", fault.says()));
        }
    }
}

pub(super) fn go_on(state: &State, me: usize, steps: &mut Steps) {
    let mut next = *state;
    next.processes[me].is_paused = false;
    steps.step(next, |_| format!("{} goes on", PROCESSES[me]));
}

impl State {
    /// The last fault makes an old copy useless.
    pub(super) fn fault_happened(&mut self) {
        self.faults_left -= 1;
        if self.faults_left == 0 {
            (self.old, self.old_left) = (None, 0);
        }
    }
}

impl Fault {
    fn needs_old(self) -> bool {
        use Fault::{OldAll, OldBits, OldMeta, OldNext, OldRecent, OtherRedis, Restart};
        matches!(self, Restart | OldBits | OldRecent | OldMeta | OldNext | OldAll | OtherRedis)
    }

    fn says(self) -> &'static str {
        match self {
            Self::Restart => "Redis restarts from the old copy, and connections break",
            Self::Empty => "Redis restarts without data, and connections break",
            Self::FlushAll => "FLUSHALL",
            Self::BitsLost => "the live filter is deleted",
            Self::RecentLost => "the record is deleted",
            Self::MetaLost => "the metadata are deleted",
            Self::NextLost => "the building filter is deleted",
            Self::OldBits => "the old copy of the live filter is put back",
            Self::OldRecent => "the old copy of the record is put back",
            Self::OldMeta => "the old copy of the metadata is put back",
            Self::OldNext => "the old copy of the building filter is put back",
            Self::OldAll => "the old copies of all keys are put back",
            Self::OtherRedis => "connections lead to another Redis, which holds the old copy",
            Self::ReplyLost => "a reply is lost",
            Self::Death => "A ends, and its open transactions are rolled back",
            Self::Standstill => "A stands still; what it has sent to the database goes on",
        }
    }

    /// The state after it, if it can happen.
    fn happens(self, model: &Model, state: &State) -> Option<State> {
        let mut next = *state;
        let redis = &mut next.redis;
        match self {
            Self::Restart => *redis = state.old?,
            Self::OldAll => *redis = state.old?,
            Self::OtherRedis => *redis = state.old?,
            Self::Empty | Self::FlushAll => *redis = Redis::default(),
            Self::BitsLost => redis.bits = state.redis.bits.and(None),
            Self::RecentLost => redis.recent = Recent::default(),
            Self::MetaLost => redis.meta = Meta::default(),
            Self::NextLost => redis.next = None,
            Self::OldBits => redis.bits = state.old?.bits,
            Self::OldRecent => redis.recent = state.old?.recent,
            Self::OldMeta => redis.meta = state.old?.meta,
            Self::OldNext => redis.next = state.old?.next,
            // It befalls an insert: see there.
            Self::ReplyLost => return None,
            Self::Death => die(model, &mut next),
            Self::Standstill => next.processes[0].is_paused = true,
        }
        let first = &state.processes[0];
        let is_possible = match self {
            Self::BitsLost => state.redis.bits.is_some(),
            Self::NextLost => state.redis.next.is_some(),
            Self::MetaLost => state.redis.meta.incarnation != 0,
            Self::Death => first.is_alive && state.processes[1].is_alive,
            Self::Standstill => first.is_alive && !first.is_paused,
            _ => true,
        };
        if matches!(self, Self::Restart | Self::Empty | Self::OtherRedis) {
            next.runs += 1;
            next.run = next.runs;
        }
        if matches!(self, Self::Restart | Self::Empty) {
            next.processes.iter_mut().for_each(|process| process.is_connected = false);
        }
        is_possible.then_some(next)
    }
}

fn die(model: &Model, state: &mut State) {
    state.processes[0] = Process::default();
    for id in (0..model.of.ids).filter(|id| model.of.inserter[*id] == 0) {
        let creation = &mut state.creations[id];
        if matches!(creation.stage, Stage::Idle | Stage::Executed | Stage::Acknowledged) {
            creation.inserts_left = 0;
            creation.to(Stage::Over);
        }
    }
}
