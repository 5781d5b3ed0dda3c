//! A check by id: whether all bits of an id are set.

use super::question::Kind;
use super::{Steps, Turn};
use crate::instance::Event;
use crate::state::{IDS, Question};

impl Turn<'_> {
    /// A request for an id. Where no header is read first, the filter of now may be known, or that of the copy.
    pub(super) fn send_check(&self, steps: &mut Steps) {
        let process = self.process();
        if !self.model.of.checks || !self.believes() {
            return;
        }
        let mut known = vec![(0, 0)];
        if self.model.of.is_header_known {
            let live = self.header(process.incarnation).map(|bits| (bits.token, bits.nonce));
            let copied = process.copy.map(|copy| (copy.token, copy.nonce));
            known = live.into_iter().chain(copied.filter(|copied| Some(*copied) != live)).collect();
        }
        for id in (0..self.model.of.ids).filter(|id| self.state.rows.has(*id)) {
            for (token, nonce) in &known {
                let question = Question { id: u8::from(id == 1), ..self.about(*token, *nonce) };
                self.send(Kind::Check, question, *self.state, ["for x", "for y"][id], steps);
            }
        }
    }

    /// Goes on where bits are missing. In another filter they may be in other places.
    pub(super) fn look_for_bits(&self, question: &Question) -> Option<Question> {
        let bits = self.state.redis.bits?;
        let is_there = bits.ids.has(usize::from(question.id)) && bits.nonce == question.nonce;
        (!is_there).then_some(Question { read: question.read + 1, ..*question })
    }

    pub(super) fn answer_check(&self, question: &Question, steps: &mut Steps) {
        let next = self.answered(Kind::Check, None);
        let id = IDS[usize::from(question.id)];
        steps.event(Event::FalseAbsence, next, ["by the check", id, Event::FalseAbsence.says()]);
    }
}
