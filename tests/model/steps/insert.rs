//! The creation of an id: the insert, its acknowledgement, the commit; and what becomes of the insert in its process.

use super::Turn;
use crate::instance::L;
use crate::rules::Rule::*;
use crate::state::Stage::*;
use crate::state::{Creation, IDS, Process};

impl Turn<'_> {
    /// The next step of the creation of an id.
    pub(super) fn create(&mut self, id: usize) {
        let (creation, now) = (self.state.creations[id], self.state.now);
        // Where the filter settles another process creates x, and does not insert it.
        let outside = self.model.settling.filter(|_| id == 0);
        match (creation.stage, outside) {
            (Idle, _) if creation.inserts_left == 0 => {}
            (Idle, None) if self.is_joined() => self.execute(id),
            (Idle, Some((until, _))) if now <= until => {
                let begun = Creation { stage: Acknowledged, begun: now, ..Creation::default() };
                self.step(["another", "begins with", IDS[id]], |next| next.creations[id] = begun);
            }
            (Executed, _) => self.acknowledge(id, creation),
            (Acknowledged, _) if now <= creation.begun + L => {
                let who = outside.map_or(self.name(), |_| "another");
                self.step([who, "commits", IDS[id]], |next| {
                    next.creations[id].to(Over);
                    next.rows.add(id);
                });
            }
            (Idle | Acknowledged | Over, _) => {}
        }
    }

    fn execute(&mut self, id: usize) {
        let (model, begun, creations) = (self.model, self.state.now, &self.state.creations);
        let incarnation = self.process().incarnation;
        let begin = |of: &mut Creation| {
            let inserts_left = of.inserts_left - 1;
            *of = Creation { stage: Executed, inserts_left, begun, incarnation };
        };
        self.step([self.name(), "inserts", IDS[id]], |next| {
            next.insert(model, id, None);
            begin(&mut next.creations[id]);
        });
        let can_both = creations.iter().all(|of| of.stage == Idle && of.inserts_left > 0);
        if model.has_calls_of_two && id == 0 && can_both {
            self.step([self.name(), "inserts in one call", "x and y"], |next| {
                next.insert(model, 0, None);
                let same = Some(next.redis.meta.last).filter(|_| !model.has(R1EachId));
                next.insert(model, 1, same);
                next.creations.iter_mut().for_each(begin);
            });
        }
    }

    /// The reply arrives.
    fn acknowledge(&mut self, id: usize, creation: Creation) {
        let (me, now) = (self.me, self.state.now);
        let Creation { begun, incarnation, .. } = creation;
        let limit = L.max(self.model.deadline);
        let is_late = now > begun + limit && (self.model.deadline == 0 || self.has(R7Deadline));
        let begun = if self.model.deadline > 0 { now } else { begun };
        let is_joined = self.process().incarnation == incarnation;
        if is_late || !is_joined && self.has(R6Incarnation) {
            let words = [self.name(), "is told in vain of its insert of", IDS[id]];
            return self.step(words, |next| next.creations[id].to(Idle));
        }
        let acknowledged = Creation { stage: Acknowledged, begun, incarnation: 0, ..creation };
        self.step([self.name(), "is told in time of its insert of", IDS[id]], |next| {
            next.creations[id] = acknowledged;
            let process = &mut next.processes[me];
            process.own.add(id);
            process.own_times[id] = now;
            process.copy.iter_mut().for_each(|copy| copy.ids.add(id));
        });
    }

    /// An insert is old, or the list of own inserts is full.
    pub(super) fn forget(&mut self) {
        let Process { own, own_times, repeats, .. } = self.process();
        for id in (0..2).filter(|id| own.has(*id)) {
            let is_old = self.state.now > own_times[id] + self.model.kept;
            let is_due = repeats.has(id) && self.has(R9Kept);
            if is_due || !is_old && !self.model.forgets_early {
                continue;
            }
            let youngest = if self.has(R9Vouched) { own_times[id] + 1 } else { 0 };
            let next = self.with(|process| {
                process.own.remove(id);
                process.repeats.remove(id);
                process.forgotten = process.forgotten.max(youngest);
                process.own_times[id] = 0;
            });
            self.push(next, [self.name(), "forgets its insert of", IDS[id]]);
        }
    }

    pub(super) fn repeat(&mut self) {
        let (model, me, process) = (self.model, self.me, self.process());
        let is_joined = self.is_joined();
        for id in (0..2).filter(|id| is_joined && process.repeats.has(*id)) {
            self.step([self.name(), "repeats its insert of", IDS[id]], |next| {
                next.processes[me].repeats.remove(id);
                next.insert(model, id, None);
            });
        }
    }
}
