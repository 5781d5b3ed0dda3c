//! The fence, which answers what the copy lacks, and the page, which only brings the copy up. Both read the record beyond its position.

use super::question::Kind;
use super::{Steps, Turn};
use crate::instance::Event;
use crate::rules::Rule;
use crate::state::{FilterCopy, IDS, Ids, Question};

impl Turn<'_> {
    /// A request for an id that the copy lacks.
    pub(super) fn send_fence(&self, steps: &mut Steps) {
        let Some(copy) = self.process().copy.filter(|_| self.believes()) else { return };
        let has_others = !self.model.has(Rule::R17NotJoined);
        let may = |id: &usize| !copy.ids.has(*id) && (self.state.rows.has(*id) || has_others);
        for id in (0..self.model.of.ids).filter(|id| self.model.of.fences && may(id)) {
            let question = Question { id: u8::from(id == 1), ..self.beyond(&copy) };
            self.send(Kind::Fence, question, *self.state, ["for x", "for y"][id], steps);
        }
    }

    /// A page, where it would find an id.
    pub(super) fn send_page(&self, steps: &mut Steps) {
        let process = self.process();
        let Some(copy) = process.copy.filter(|_| self.believes()) else { return };
        let is_behind = self.state.redis.recent.numbers.iter().any(|of| *of > copy.position);
        if process.left.pages > 0 && is_behind {
            let next = self.with(|process| process.left.pages -= 1);
            self.send(Kind::Page, self.beyond(&copy), next, "", steps);
        }
    }

    fn beyond(&self, copy: &FilterCopy) -> Question {
        Question { since: copy.position, ..self.about(copy.token, copy.nonce) }
    }

    /// Members of the record beyond a position, by number, as many as one read gives. Equal numbers come in any order.
    pub(super) fn read_record(&self, kind: Kind, question: &Question, steps: &mut Steps) {
        let recent = &self.state.redis.recent;
        let floor = if self.model.has(Rule::R2FloorInRecord) { recent.floor } else { 0 };
        // An id, or the floor.
        let members = [(recent.numbers[0], Some(0)), (recent.numbers[1], Some(1)), (floor, None)];
        let mut members = members.to_vec();
        members.retain(|(number, _)| *number > question.since);
        members.sort_unstable();
        let ties = (1..members.len()).filter(|at| members[at - 1].0 == members[*at].0);
        let swapped = ties.map(|at| {
            let mut other = members.clone();
            other.swap(at - 1, at);
            other
        });
        let orders: Vec<_> = swapped.chain([members.clone()]).collect();
        for mut members in orders {
            members.truncate(self.model.of.page);
            let mut read = Question { read: question.read + 1, ids: Ids::default(), ..*question };
            read.greatest = members.last().map_or(0, |(number, _)| *number);
            read.has_floor |= members.iter().any(|(_, id)| id.is_none());
            members.iter().filter_map(|(_, id)| *id).for_each(|id| read.ids.add(id));
            let next = self.with(|process| process.questions[kind as usize] = Some(read));
            steps.step(next, [kind.says(), "reads the record", ""]);
        }
    }

    pub(super) fn answer_fence(&self, question: &Question, steps: &mut Steps) {
        let copy = self.copy_for(question, Rule::R17Position);
        let Some(mut copy) = copy.filter(|_| self.is_good(question)) else {
            return self.end(Kind::Fence, "it proves nothing", steps);
        };
        copy.ids.0 |= question.ids.0;
        let is_right = self.model.has(Rule::R16Position);
        let end = if is_right {
            question.greatest.max(question.stamp)
        } else {
            self.state.redis.meta.last
        };
        copy.position = copy.position.max(end);
        let next = self.answered(Kind::Fence, Some(copy));
        let rows = self.state.rows;
        let is_asked =
            |id: &usize| usize::from(question.id) == *id || !self.model.has(Rule::R17NotJoined);
        let mut lacking = (0..self.model.of.ids).filter(|id| !copy.ids.has(*id));
        if let Some(id) = lacking.clone().find(|id| is_asked(id) && rows.has(*id)) {
            let absent = Event::FalseAbsence;
            return steps.event(absent, next, ["by the fence", IDS[id], absent.says()]);
        }
        let refuses = lacking.any(|id| !rows.has(id)).then_some(Event::FenceRefuses);
        steps.event(refuses, next, ["a fence", "is good:", "the copy has all that was inserted"]);
    }

    pub(super) fn take_page(&self, question: &Question, steps: &mut Steps) {
        let is_passed = question.has_floor && self.model.has(Rule::R16PageFloor);
        let copy = self.copy_for(question, Rule::R17PagePosition);
        let Some(mut copy) = copy.filter(|_| !is_passed) else {
            return self.end(Kind::Page, "the floor or another copy is there", steps);
        };
        copy.ids.0 |= question.ids.0;
        copy.position = copy.position.max(question.greatest);
        let next = self.answered(Kind::Page, Some(copy));
        steps.event(Event::PageMoves, next, ["a page", "is taken", ""]);
    }

    /// The copy that a reply counts for: the one that was asked for, or one of its filter that has as much.
    fn copy_for(&self, question: &Question, rule: Rule) -> Option<FilterCopy> {
        let copy = self.process().copy?;
        let is_same = self.is_same((copy.token, copy.nonce), (question.token, question.nonce));
        let has_as_much = copy.position >= question.since || !self.model.has(rule);
        (is_same && has_as_much).then_some(copy)
    }

    /// Whether the record was read without a gap from the position to the last insert.
    fn is_good(&self, question: &Question) -> bool {
        let Question { stamp, since, greatest, .. } = *question;
        let is_passed = question.has_floor && self.model.has(Rule::R16Floor);
        if self.model.of.is_header_known {
            // The only header comes last, so nothing may lie between.
            return !is_passed && greatest.max(since) == stamp && stamp == question.last;
        }
        let reaches = stamp == since || greatest >= stamp || !self.model.has(Rule::R16Reaches);
        !is_passed && stamp >= since && reaches
    }
}
