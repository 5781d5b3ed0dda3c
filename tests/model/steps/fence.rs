//! The fence, which answers what the copy lacks, and the page, which only brings the copy up. Both read the record beyond its position.

use super::Turn;
use crate::instance::ABSENT;
use crate::rules::Rule::{self, *};
use crate::state::Kind::{self, Fence, Page};
use crate::state::{Filter, IDS, Question};

impl Turn<'_> {
    /// A request for an id that the copy lacks.
    pub(super) fn send_fence(&mut self) {
        let Some(copy) = self.process().copy.filter(|_| self.believes()) else { return };
        for id in (0..self.model.ids).filter(|id| self.model.fences && !copy.ids.has(*id)) {
            if self.state.rows.has(id) || !self.has(R17NotJoined) {
                let question = Question { id: id as u8, ..self.beyond(Fence, copy) };
                self.send(question, *self.state, ["for x", "for y"][id]);
            }
        }
    }

    /// A page, where it would find an id.
    pub(super) fn send_page(&mut self) {
        let process = self.process();
        let Some(copy) = process.copy.filter(|_| self.believes()) else { return };
        let is_behind = self.state.redis.recent.numbers.iter().any(|of| *of > copy.stamp);
        if process.left.pages > 0 && is_behind {
            let next = self.with(|process| process.left.pages -= 1);
            self.send(self.beyond(Page, copy), next, "");
        }
    }

    /// A question about what came since a copy. A floor that is no member of the record is read before the entries.
    fn beyond(&self, kind: Kind, copy: Filter) -> Question {
        let is_passed = self.state.redis.recent.floor > copy.stamp;
        let has_floor = is_passed && !self.has(R2FloorInRecord);
        Question { since: copy.stamp, has_floor, ..self.about(kind, copy) }
    }

    /// Members of the record beyond a position, by number, as many as one read gives. Equal numbers come in any order.
    pub(super) fn read_record(&mut self, question: Question) {
        let recent = &self.state.redis.recent;
        let floor = if self.has(R2FloorInRecord) { recent.floor } else { 0 };
        // An id, or the floor.
        let members = [(recent.numbers[0], Some(0)), (recent.numbers[1], Some(1)), (floor, None)];
        let mut members: Vec<_> =
            members.into_iter().filter(|(number, _)| *number > question.since).collect();
        members.sort_unstable();
        let mut orders = vec![members.clone()];
        for at in (1..members.len()).filter(|at| members[at - 1].0 == members[*at].0) {
            let mut other = members.clone();
            other.swap(at - 1, at);
            orders.push(other);
        }
        for mut members in orders {
            members.truncate(self.model.page);
            let mut read = Question { read: question.read + 1, ..question };
            read.greatest = members.last().map_or(0, |(number, _)| *number);
            for (_, id) in members {
                match id {
                    Some(id) => read.of.ids.add(id),
                    None => read.has_floor = true,
                }
            }
            let next = self.with(|process| process.questions[read.kind as usize] = Some(read));
            self.push(next, [read.kind.says(), "reads the record", ""]);
        }
    }

    pub(super) fn answer_fence(&mut self, question: Question) {
        let copy = self.copy_for(&question, R17Position);
        let Some(mut copy) = copy.filter(|_| self.is_good(&question)) else {
            return self.end(question, "it proves nothing");
        };
        copy.ids.0 |= question.of.ids.0;
        let read_to = question.greatest.max(question.of.stamp);
        let end = if self.has(R16Position) { read_to } else { self.state.redis.meta.last };
        copy.stamp = copy.stamp.max(end);
        let next = self.answered(question, Some(copy));
        let rows = self.state.rows;
        let lacking = (0..self.model.ids).filter(|id| !copy.ids.has(*id));
        let is_asked = |id: &usize| usize::from(question.id) == *id || !self.has(R17NotJoined);
        if let Some(id) = lacking.clone().filter(is_asked).find(|id| rows.has(*id)) {
            return self.push(next, ["by the fence", IDS[id], ABSENT]);
        }
        let refuses = lacking.clone().any(|id| !rows.has(id));
        self.push(
            next,
            ["a fence", "is good, and", if refuses { "refuses" } else { "passes all" }],
        );
    }

    pub(super) fn take_page(&mut self, question: Question) {
        let is_passed = question.has_floor && self.has(R16PageFloor);
        let copy = self.copy_for(&question, R17PagePosition);
        let Some(mut copy) = copy.filter(|_| !is_passed) else {
            return self.end(question, "the floor or another copy is there");
        };
        copy.ids.0 |= question.of.ids.0;
        copy.stamp = copy.stamp.max(question.greatest);
        let next = self.answered(question, Some(copy));
        self.push(next, ["a page", "moves the copy", ""]);
    }

    /// The copy that a reply counts for: the one that was asked for, or one of its filter that has as much.
    fn copy_for(&self, question: &Question, rule: Rule) -> Option<Filter> {
        let copy = self.process().copy.filter(|copy| self.is_same(copy, &question.of));
        copy.filter(|copy| copy.stamp >= question.since || !self.has(rule))
    }

    /// Whether the record was read without a gap from the position to the last insert, by metadata and header if they were read.
    fn is_good(&self, question: &Question) -> bool {
        let end = question.greatest.max(question.since);
        let ends = |number: u8| number == 0 || number == end || !self.has(R16Reaches);
        let is_passed = question.has_floor && self.has(R16Floor);
        !is_passed && ends(question.last) && ends(question.of.stamp)
    }
}
