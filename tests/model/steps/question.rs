//! The shape of whatever may say "absent", and of the load of a copy: what is asked for, the metadata, the header.
//!
//! The header must be of the filter that the question is about, live by the metadata too, in the joined incarnation; its stamp must
//! reach the last number. Here are a check by id and the load of a copy; `fence.rs` has what reads the record.

use super::Turn;
use crate::instance::{ABSENT, Reading};
use crate::rules::Rule::*;
use crate::state::Kind::{self, Check, Fence, Load, Page};
use crate::state::{Filter, IDS, Question, State};

impl Turn<'_> {
    pub(super) fn questions(&mut self) {
        for kind in [Fence, Page, Check, Load] {
            match (self.process().questions[kind as usize], kind) {
                (Some(question), _) => self.go_on(question),
                (None, Fence) => self.send_fence(),
                (None, Page) => self.send_page(),
                (None, Check) => self.send_check(),
                (None, Load) => self.begin_load(),
            }
        }
    }

    /// A question about a filter.
    pub(super) fn about(&self, kind: Kind, filter: Filter) -> Question {
        let Filter { token, nonce, .. } = filter;
        let incarnation = self.process().incarnation;
        let of = Filter { token, nonce, incarnation, ..Filter::default() };
        Question { kind, of, ..Question::default() }
    }

    pub(super) fn send(&mut self, question: Question, mut next: State, about: &'static str) {
        next.processes[self.me].questions[question.kind as usize] = Some(question);
        self.push(next, ["B begins", question.kind.says(), about]);
    }

    /// A request for an id. The filter of now may be known, or that of the copy.
    fn send_check(&mut self) {
        let process = self.process();
        if !self.model.checks || !self.believes() {
            return;
        }
        let live = self.header(process.incarnation);
        let copied = process.copy.filter(|copy| live.is_none_or(|live| live.nonce != copy.nonce));
        for id in (0..self.model.ids).filter(|id| self.state.rows.has(*id)) {
            for filter in live.into_iter().chain(copied) {
                let question = Question { id: id as u8, ..self.about(Check, filter) };
                self.send(question, *self.state, ["for x", "for y"][id]);
            }
        }
    }

    fn begin_load(&mut self) {
        let process = self.process();
        let Some(live) = self.header(process.incarnation) else { return };
        let is_new = process.copy.is_none_or(|copy| copy.token != live.token);
        if process.left.loads > 0 && self.believes() && is_new {
            let next = self.with(|process| process.left.loads -= 1);
            let mut question = self.about(Load, live);
            question.of.stamp = live.stamp;
            self.send(question, next, "");
        }
    }

    fn go_on(&mut self, question: Question) {
        let readings = self.model.readings();
        let Some(reading) = readings.get(usize::from(question.read)).copied() else {
            return self.handle(question);
        };
        if !self.process().is_connected {
            return self.end(question, "the connection is gone");
        }
        let mut next = *self.state;
        let read = match (reading, question.kind) {
            (Reading::Asked, Fence | Page) => return self.read_record(question),
            (Reading::Asked, Check | Load) => self.read_bits(question),
            (Reading::Metadata, _) => self.read_metadata(question, &mut next),
            (Reading::Header, _) => self.read_header(question),
        };
        let Some(read) = read else {
            return self.end(question, "what it reads speaks against it");
        };
        if usize::from(read.read) == readings.len() && matches!(read.kind, Check | Load) {
            return self.handle(read);
        }
        next.processes[self.me].questions[read.kind as usize] = Some(read);
        let what = ["reads what is asked for", "reads the metadata", "reads the header"];
        self.push(next, [read.kind.says(), what[reading as usize], ""]);
    }

    /// Reads the bits of one id: a check goes on where some are missing, and a load reads those of each id in turn. In another filter
    /// they may be in other places.
    fn read_bits(&self, mut question: Question) -> Option<Question> {
        let (bits, id) = (self.state.redis.bits?, usize::from(question.id));
        let is_there = bits.ids.has(id) && bits.nonce == question.of.nonce;
        if question.kind == Check {
            question.read += 1;
            return (!is_there).then_some(question);
        }
        if is_there {
            question.of.ids.add(id);
        }
        question.id += 1;
        question.read += u8::from(id + 1 == self.model.ids);
        Some(question)
    }

    fn read_metadata(&self, mut question: Question, next: &mut State) -> Option<Question> {
        let meta = self.state.redis.meta;
        question.read += 1;
        question.last = meta.last;
        let is_live = question.of.token == meta.live || !self.has(R15Live);
        let is_good = meta.incarnation == question.of.incarnation && is_live;
        (is_good && self.is_settled(next)).then_some(question)
    }

    fn read_header(&self, mut question: Question) -> Option<Question> {
        let bits = self.header(question.of.incarnation)?;
        let Filter { stamp, .. } = question.of;
        let is_good = self.is_same(&bits, &question.of) && bits.stamp >= stamp.max(question.last);
        question.read += 1;
        question.of.stamp = if stamp == 0 { bits.stamp } else { stamp };
        is_good.then_some(question)
    }

    fn handle(&mut self, question: Question) {
        let is_joined = self.process().incarnation == question.of.incarnation;
        if !self.believes() || !is_joined {
            return self.end(question, "absence is not believed");
        }
        match question.kind {
            Fence => self.answer_fence(question),
            Page => self.take_page(question),
            Check => {
                let id = IDS[usize::from(question.id)];
                self.push(self.answered(question, None), ["by the check", id, ABSENT]);
            }
            Load => {
                let mut copy = question.of;
                if !self.has(R18FirstHeader) {
                    copy.stamp = self.state.redis.bits.map_or(0, |bits| bits.stamp);
                }
                let next = self.answered(question, Some(copy));
                self.push(next, ["the load", "gives B another copy", ""]);
            }
        }
    }

    /// The state after an answer, in which the process may have another copy.
    pub(super) fn answered(&self, question: Question, copy: Option<Filter>) -> State {
        self.with(|process| {
            process.questions[question.kind as usize] = None;
            process.copy = copy.or(process.copy);
        })
    }

    /// Goes on without an answer.
    pub(super) fn end(&mut self, question: Question, why: &'static str) {
        let next = self.answered(question, None);
        self.push(next, [question.kind.says(), "ends without an answer:", why]);
    }

    /// The header, if it is one of a live filter of this incarnation.
    pub(super) fn header(&self, incarnation: u8) -> Option<Filter> {
        let bits = self.state.redis.bits.filter(|bits| !bits.is_disproved)?;
        (bits.incarnation == incarnation || !self.has(R8Disproved)).then_some(bits)
    }

    /// Whether two filters are one, by token and nonce.
    pub(super) fn is_same(&self, one: &Filter, other: &Filter) -> bool {
        one.token == other.token && (one.nonce == other.nonce || !self.has(R13Nonce))
    }
}
