//! The shape of whatever may say "absent", and of the load of a copy: header, what is asked for, metadata, header.
//!
//! Both headers must be of one filter that is live, by the metadata too, in the joined incarnation; its stamp must reach the last number.

use super::{Steps, Turn};
use crate::instance::Reading;
use crate::rules::Rule;
use crate::state::{Bits, FilterCopy, Question, State};

/// What is asked. Each process has one of a kind under way at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Fence,
    Page,
    Check,
    Load,
}

impl Kind {
    pub(super) fn says(self) -> &'static str {
        ["a fence", "a page", "a check by id", "the load of a copy"][self as usize]
    }
}

impl Turn<'_> {
    pub(super) fn questions(&self, steps: &mut Steps) {
        for kind in [Kind::Fence, Kind::Page, Kind::Check, Kind::Load] {
            match (self.process().questions[kind as usize], kind) {
                (Some(question), _) => self.go_on(kind, &question, steps),
                (None, Kind::Fence) => self.send_fence(steps),
                (None, Kind::Page) => self.send_page(steps),
                (None, Kind::Check) => self.send_check(steps),
                (None, Kind::Load) => self.begin_load(steps),
            }
        }
    }

    /// A question about one filter, or about whichever is live if that is none.
    pub(super) fn about(&self, token: u8, nonce: u8) -> Question {
        let incarnation = self.process().incarnation;
        Question { incarnation, token, nonce, ..Question::default() }
    }

    /// Sends a question. All but a fence make their first reading as they begin.
    pub(super) fn send(
        &self,
        kind: Kind,
        question: Question,
        mut next: State,
        about: &'static str,
        steps: &mut Steps,
    ) {
        let first = self.model.readings(kind == Kind::Load)[0];
        let is_later = kind == Kind::Fence || first == Reading::Asked;
        let question =
            if is_later { Some(question) } else { self.read(first, &question, &mut next) };
        if question.is_some() {
            next.processes[self.me].questions[kind as usize] = question;
            steps.step(next, ["B begins", kind.says(), about]);
        }
    }

    /// The state after an answer, in which the process may have another copy.
    pub(super) fn answered(&self, kind: Kind, copy: Option<FilterCopy>) -> State {
        self.with(|process| {
            process.questions[kind as usize] = None;
            process.copy = copy.or(process.copy);
        })
    }

    /// Goes on without an answer.
    pub(super) fn end(&self, kind: Kind, why: &'static str, steps: &mut Steps) {
        let next = self.answered(kind, None);
        steps.step(next, [kind.says(), "ends without an answer:", why]);
    }

    fn go_on(&self, kind: Kind, question: &Question, steps: &mut Steps) {
        let readings = self.model.readings(kind == Kind::Load);
        let Some(reading) = readings.get(usize::from(question.read)).copied() else {
            return self.handle(kind, question, steps);
        };
        if !self.process().is_connected {
            return self.end(kind, "the connection is gone", steps);
        }
        let mut next = *self.state;
        let read = match (reading, kind) {
            (Reading::Asked, Kind::Fence | Kind::Page) => {
                return self.read_record(kind, question, steps);
            }
            (Reading::Asked, Kind::Check) => self.look_for_bits(question),
            (Reading::Asked, Kind::Load) => self.read_piece(question),
            (Reading::Header | Reading::Metadata, _) => self.read(reading, question, &mut next),
        };
        let Some(read) = read else {
            return self.end(kind, "what it reads speaks against it", steps);
        };
        let is_over = usize::from(read.read) == readings.len();
        if is_over && matches!(kind, Kind::Check | Kind::Load) {
            return self.handle(kind, &read, steps);
        }
        next.processes[self.me].questions[kind as usize] = Some(read);
        let what = ["reads the header", "reads what is asked for", "reads the metadata"];
        steps.step(next, [kind.says(), what[reading as usize], ""]);
    }

    fn handle(&self, kind: Kind, question: &Question, steps: &mut Steps) {
        let is_joined = self.process().incarnation == question.incarnation;
        if !self.believes() || !is_joined {
            return self.end(kind, "absence is not believed", steps);
        }
        match kind {
            Kind::Fence => self.answer_fence(question, steps),
            Kind::Page => self.take_page(question, steps),
            Kind::Check => self.answer_check(question, steps),
            Kind::Load => self.take_copy(question, steps),
        }
    }

    /// The header, if it is one of a live filter of this process of Redis and this incarnation.
    pub(super) fn header(&self, incarnation: u8) -> Option<Bits> {
        let bits = self.state.redis.bits.filter(|bits| !bits.is_disproved)?;
        let is_of_here = bits.run == self.process().run && bits.incarnation == incarnation;
        (is_of_here || !self.model.has(Rule::R8Disproved)).then_some(bits)
    }

    /// Whether two filters are one, by token and nonce.
    pub(super) fn is_same(&self, one: (u8, u8), other: (u8, u8)) -> bool {
        one.0 == other.0 && (one.1 == other.1 || !self.model.has(Rule::R13Nonce))
    }

    /// Reads the header or the metadata. `None` where they speak against it.
    fn read(&self, reading: Reading, question: &Question, next: &mut State) -> Option<Question> {
        let mut read = Question { read: question.read + 1, ..*question };
        if reading == Reading::Header {
            let bits = self.header(question.incarnation)?;
            if read.token == 0 {
                (read.token, read.nonce) = (bits.token, bits.nonce);
            }
            // The floor, too, if it is no member of the record.
            let is_below = self.state.redis.recent.floor > read.since;
            read.has_floor |= read.read == 1 && is_below && !self.model.has(Rule::R2FloorInRecord);
            let is_known = self.is_same((bits.token, bits.nonce), (read.token, read.nonce));
            let is_good = is_known && bits.stamp >= read.stamp && bits.stamp >= read.last;
            read.stamp = if read.stamp == 0 { bits.stamp } else { read.stamp };
            return is_good.then_some(read);
        }
        let meta = self.state.redis.meta;
        read.last = meta.last;
        let wants_live = self.model.has(Rule::R15Live) && self.model.has(Rule::R15Between);
        let is_live = read.token == meta.live || !wants_live;
        let is_good = meta.incarnation == read.incarnation && is_live && self.is_settled(next);
        is_good.then_some(read)
    }
}
