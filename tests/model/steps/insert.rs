//! The creation of an id: the insert, its acknowledgement, the commit.

use super::Turn;
use crate::instance::{Fault, L};
use crate::rules::Rule::*;
use crate::state::{Creation, IDS, Stage};

impl Turn<'_> {
    /// The next step of the creation of an id.
    pub(super) fn create(&mut self, id: usize) {
        let creation = self.state.creations[id];
        let is_outside = self.model.settling.is_some() && id == 0;
        match creation.stage {
            Stage::Idle if creation.inserts_left == 0 => {}
            Stage::Idle if is_outside => self.begin_outside(creation),
            Stage::Idle => self.execute(id),
            Stage::Executed => self.acknowledge(id, creation),
            Stage::Acknowledged => {
                let mut next = *self.state;
                next.creations[id].to(Stage::Committed);
                next.rows.add(id);
                let who = if is_outside { "another" } else { self.name() };
                self.push(next, [who, "commits", IDS[id]]);
            }
            Stage::Committed | Stage::Over => {}
        }
    }

    fn execute(&mut self, id: usize) {
        let incarnation = self.process().incarnation;
        if !self.process().is_connected || !self.is_joined() || incarnation == 0 {
            return;
        }
        let begun = self.state.now;
        let begin = |one: &mut Creation| {
            let inserts_left = one.inserts_left - 1;
            *one = Creation { stage: Stage::Executed, inserts_left, begun, incarnation };
        };
        let other = &self.state.creations[1];
        let is_other_idle = other.stage == Stage::Idle && other.inserts_left > 0;
        if self.model.has_calls_of_two && id == 0 && is_other_idle {
            let mut next = *self.state;
            next.insert(self.model, 0, None);
            let last = next.redis.meta.last;
            next.insert(self.model, 1, (!self.has(R1EachId)).then_some(last));
            next.creations.iter_mut().for_each(begin);
            self.push(next, [self.name(), "inserts in one call", "x and y"]);
        }
        let mut next = *self.state;
        next.insert(self.model, id, None);
        begin(&mut next.creations[id]);
        self.push(next, [self.name(), "inserts", IDS[id]]);
    }

    /// The reply arrives, or is lost.
    fn acknowledge(&mut self, id: usize, creation: Creation) {
        let now = self.state.now;
        let is_late = match self.model.deadline {
            None => now > creation.begun + L,
            Some(deadline) => now > creation.begun + deadline && self.has(R7Deadline),
        };
        let is_joined = self.process().incarnation == creation.incarnation;
        let mut next = *self.state;
        if is_late || !is_joined && self.has(R6Incarnation) {
            next.creations[id].to(Stage::Idle);
            self.push(next, [self.name(), "is told in vain of its insert of", IDS[id]]);
        } else {
            let begun = if self.model.deadline.is_some() { now } else { creation.begun };
            let stage = Stage::Acknowledged;
            next.creations[id] = Creation { stage, begun, incarnation: 0, ..creation };
            let process = &mut next.processes[self.me];
            process.own.add(id);
            process.own_times[id] = now;
            process.copy.iter_mut().for_each(|copy| copy.ids.add(id));
            self.push(next, [self.name(), "is told in time of its insert of", IDS[id]]);
        }
        if self.model.faults.contains(&Fault::ReplyLost) && self.state.faults_left > 0 {
            let mut next = *self.state;
            next.creations[id].to(Stage::Idle);
            self.fault(Fault::ReplyLost, next);
        }
    }

    /// A process that does not insert creates `x`.
    fn begin_outside(&mut self, creation: Creation) {
        let now = self.state.now;
        if self.model.settling.is_some_and(|(stops, _)| now <= stops) {
            let mut next = *self.state;
            let inserts_left = creation.inserts_left - 1;
            next.creations[0] =
                Creation { stage: Stage::Acknowledged, inserts_left, begun: now, ..creation };
            self.push(next, ["another", "begins to create without an insert", "x"]);
        }
    }
}
