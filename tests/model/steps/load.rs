//! The load of a copy, a piece for each id.

use super::question::Kind;
use super::{Steps, Turn};
use crate::instance::Event;
use crate::rules::Rule;
use crate::state::{FilterCopy, Question};

impl Turn<'_> {
    pub(super) fn begin_load(&self, steps: &mut Steps) {
        let process = self.process();
        let live = self.header(process.incarnation).map(|bits| bits.token);
        let is_new = live.is_some() && live != process.copy.map(|copy| copy.token);
        if process.left.loads > 0 && self.believes() && is_new {
            let next = self.with(|process| process.left.loads -= 1);
            self.send(Kind::Load, self.about(0, 0), next, "", steps);
        }
    }

    /// Reads the bits of one id. Those of another filter say nothing of it.
    pub(super) fn read_piece(&self, question: &Question) -> Option<Question> {
        let (bits, mut read, id) = (self.state.redis.bits?, *question, usize::from(question.id));
        if bits.ids.has(id) && bits.nonce == question.nonce {
            read.ids.add(id);
        }
        read.id += 1;
        read.read += u8::from(usize::from(read.id) == self.model.of.ids);
        Some(read)
    }

    pub(super) fn take_copy(&self, question: &Question, steps: &mut Steps) {
        let now = self.state.redis.bits.map_or(0, |bits| bits.stamp);
        let is_right = self.model.has(Rule::R18FirstHeader);
        let position = if is_right { question.stamp } else { now };
        let Question { token, nonce, ids, .. } = *question;
        let copy = FilterCopy { token, nonce, ids, position };
        let next = self.answered(Kind::Load, Some(copy));
        steps.event(
            Event::CopyLoaded,
            next,
            ["the load of a copy", "is over:", "B has another copy"],
        );
    }
}
