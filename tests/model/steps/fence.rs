//! The fence, which answers what the copy lacks, and the page, which brings it up. Both read the record beyond it.

use super::Turn;
use crate::instance::ABSENT;
use crate::rules::Rule::{self, *};
use crate::state::Kind::{self, Fence, Page};
use crate::state::{Filter, IDS, Question, Recent};

impl Turn<'_> {
    /// A request for an id that the copy lacks.
    pub(super) fn send_fence(&mut self) {
        let Some(copy) = self.process().copy else { return };
        for id in (0..self.model.ids).filter(|id| self.model.fences && !copy.ids.has(*id)) {
            if self.state.rows.has(id) || !self.has(R17NotJoined) {
                let question = Question { id: id as u8, ..self.beyond(Fence, copy) };
                self.put(question, *self.state, ["B begins", "Fence for", IDS[id]]);
            }
        }
    }

    /// A page, where it would find an id.
    pub(super) fn send_page(&mut self) {
        let Some(copy) = self.process().copy else { return };
        let is_behind = self.state.redis.recent.numbers.iter().any(|of| *of > copy.stamp);
        if self.process().pages > 0 && is_behind {
            let next = self.with(|process| process.pages -= 1);
            self.put(self.beyond(Page, copy), next, ["B begins", "Page", ""]);
        }
    }

    /// A question about what came since a copy. A floor that is no member of the record is read before the entries.
    fn beyond(&self, kind: Kind, copy: Filter) -> Question {
        let is_passed = self.state.redis.recent.floor > copy.stamp;
        let has_floor = is_passed && !self.has(R2FloorInRecord);
        Question { since: copy.stamp, has_floor, ..self.about(kind, copy) }
    }

    /// Reads members of the record by number, as many as one read gives. Equal numbers come in any order.
    pub(super) fn read_record(&mut self, question: Question) {
        const FLOOR: usize = 2;
        let Recent { numbers: [x, y], floor, .. } = self.state.redis.recent;
        let floor = if self.has(R2FloorInRecord) { floor } else { 0 };
        let [x, y, floor] = [(x, 0), (y, 1), (floor, FLOOR)];
        for mut members in [vec![x, y, floor], vec![floor, y, x]] {
            members.retain(|(number, _)| *number > question.since);
            members.sort_by_key(|(number, _)| *number);
            members.truncate(self.model.page);
            let mut read = Question { read: question.read + 1, ..question };
            read.greatest = members.last().map_or(0, |(number, _)| *number);
            read.has_floor |= members.iter().any(|(_, id)| *id == FLOOR);
            for (_, id) in members.into_iter().filter(|(_, id)| *id < FLOOR) {
                read.of.ids.add(id);
            }
            self.put(read, *self.state, [read.kind.into(), "reads", "the record"]);
        }
    }

    pub(super) fn answer_fence(&mut self, question: Question) {
        let copy = self.copy_for(&question, R17Position);
        let Some(mut copy) = copy.filter(|_| self.is_good(&question)) else {
            return self.end(question, "it proves nothing");
        };
        let read_to = question.greatest.max(question.of.stamp);
        let end = if self.has(R16Position) { read_to } else { self.state.redis.meta.last };
        copy.ids.0 |= question.of.ids.0;
        copy.stamp = copy.stamp.max(end);
        let next = self.answered(question, Some(copy));
        let rows = self.state.rows;
        let is_asked = |id: usize| usize::from(question.id) == id || !self.has(R17NotJoined);
        let mut lacking = (0..self.model.ids).filter(|id| !copy.ids.has(*id));
        match lacking.clone().find(|id| is_asked(*id) && rows.has(*id)) {
            Some(id) => self.push(next, ["by the fence", IDS[id], ABSENT]),
            None if lacking.any(|id| !rows.has(id)) => self.push(next, ["Fence", "refuses", ""]),
            None => self.push(next, ["Fence", "brings up the copy", ""]),
        }
    }

    pub(super) fn take_page(&mut self, question: Question) {
        let is_passed = question.has_floor && self.has(R16PageFloor);
        let copy = self.copy_for(&question, R17PagePosition).filter(|_| !is_passed);
        let Some(mut copy) = copy else { return self.end(question, "it says too little") };
        copy.ids.0 |= question.of.ids.0;
        copy.stamp = copy.stamp.max(question.greatest);
        self.push(self.answered(question, Some(copy)), ["Page", "moves the copy", ""]);
    }

    /// The copy that a reply counts for: the one that was asked for, or one of its filter that has as much.
    fn copy_for(&self, question: &Question, rule: Rule) -> Option<Filter> {
        let copy = self.process().copy.filter(|copy| self.is_same(copy, &question.of));
        copy.filter(|copy| copy.stamp >= question.since || !self.has(rule))
    }

    /// Whether the record was read from the position to the last insert, by what was read of metadata and header.
    fn is_good(&self, question: &Question) -> bool {
        let end = question.greatest.max(question.since);
        let ends = |number: u8| number == 0 || number == end || !self.has(R16Reaches);
        let is_passed = question.has_floor && self.has(R16Floor);
        !is_passed && ends(question.last) && ends(question.of.stamp)
    }
}
