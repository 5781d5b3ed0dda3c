//! The shape of whatever may say "absent", and of the load of a copy: what is asked for, the metadata, the header.
//!
//! The header must be of the filter that the question is about, live by the metadata too, in the joined incarnation,
//! and reach the last number. A check by id and the load of a copy are here; `fence.rs` has what reads the record.

use super::{Turn, Words};
use crate::instance::ABSENT;
use crate::rules::Rule::*;
use crate::state::Kind::{self, Check, Fence, Load, Page};
use crate::state::Reading::{self, Asked, Header, Metadata};
use crate::state::{Filter, IDS, Ids, Question, Redis, State};

impl Turn<'_> {
    pub(super) fn questions(&mut self) {
        for kind in [Fence, Page, Check, Load] {
            match (self.process().questions[kind as usize], kind) {
                (Some(question), _) => self.go_on(question),
                _ if !self.believes() => {}
                (None, Fence) => self.send_fence(),
                (None, Page) => self.send_page(),
                (None, Check) => self.send_check(),
                (None, Load) => self.begin_load(),
            }
        }
    }

    /// Whether the process believes in an absence: its session is joined, and Redis has its own inserts.
    pub(super) fn believes(&self) -> bool {
        let process = self.process();
        process.is_connected && (process.repeats == Ids::default() || !self.has(R20Repeated))
    }

    /// Whether the filter settles no more; who has once read so knows it.
    fn is_settled(&self, next: &mut State) -> bool {
        let Some((_, settles)) = self.model.settling else { return true };
        next.processes[self.me].knows_settled |= next.redis.meta.is_settled;
        if self.has(R20Rebuild) { next.redis.meta.is_settled } else { next.now > settles }
    }

    /// A question about a filter.
    pub(super) fn about(&self, kind: Kind, Filter { token, nonce, .. }: Filter) -> Question {
        let incarnation = self.process().incarnation;
        let of = Filter { token, nonce, incarnation, ..Filter::default() };
        Question { kind, of, ..Question::default() }
    }

    /// Takes a step, after which the question is this one.
    pub(super) fn put(&mut self, question: Question, mut next: State, words: Words) {
        next.processes[self.me].questions[question.kind as usize] = Some(question);
        self.push(next, words);
    }

    /// A request for an id. The filter of now may be known, or that of the copy.
    fn send_check(&mut self) {
        let process = self.process();
        let live = self.header(process.incarnation);
        let copied = process.copy.filter(|copy| live.is_none_or(|live| live.nonce != copy.nonce));
        let (checks, rows) = (self.model.checks, self.state.rows);
        for id in (0..self.model.ids).filter(|id| checks && rows.has(*id)) {
            for filter in live.into_iter().chain(copied) {
                let question = Question { id: id as u8, ..self.about(Check, filter) };
                self.put(question, *self.state, ["B begins", "Check of", IDS[id]]);
            }
        }
    }

    fn begin_load(&mut self) {
        let process = self.process();
        let Some(live) = self.header(process.incarnation) else { return };
        let is_new = process.copy.is_none_or(|copy| copy.token != live.token);
        if process.loads > 0 && is_new {
            let mut question = self.about(Load, live);
            question.of.stamp = live.stamp;
            let next = self.with(|process| process.loads -= 1);
            self.put(question, next, ["B begins", "Load", ""]);
        }
    }

    fn go_on(&mut self, mut question: Question) {
        let readings = self.model.readings();
        let Some(reading) = readings.get(usize::from(question.read)).copied() else {
            return self.handle(question);
        };
        let is_of_record = matches!(question.kind, Fence | Page);
        let is_connected = self.process().is_connected;
        if is_connected && is_of_record && reading == Asked {
            return self.read_record(question);
        }
        let mut next = *self.state;
        if !is_connected || !self.read(reading, &mut question, &mut next) {
            return self.end(question, "what it reads speaks against it");
        }
        question.read += 1;
        if usize::from(question.read) == readings.len() && !is_of_record {
            return self.handle(question);
        }
        self.put(question, next, [question.kind.into(), "reads", reading.into()]);
    }

    /// Reads one piece. Returns whether nothing in it speaks against the filter.
    fn read(&self, reading: Reading, question: &mut Question, next: &mut State) -> bool {
        let Redis { meta, bits, .. } = self.state.redis;
        let of = &mut question.of;
        match reading {
            // In another filter the bits of an id may be in other places.
            Asked => {
                let bits = bits.filter(|bits| bits.nonce == of.nonce).unwrap_or_default();
                let is_load = question.kind == Load;
                of.ids = if is_load { bits.ids } else { of.ids };
                is_load || !bits.ids.has(usize::from(question.id))
            }
            Metadata => {
                question.last = meta.last;
                let is_live = meta.live == of.token || !self.has(R15Live);
                meta.incarnation == of.incarnation && is_live && self.is_settled(next)
            }
            Header => self.header(of.incarnation).is_some_and(|bits| {
                let first = of.stamp;
                of.stamp = if first == 0 { bits.stamp } else { first };
                self.is_same(&bits, of) && bits.stamp >= first.max(question.last)
            }),
        }
    }

    fn handle(&mut self, question: Question) {
        if !self.believes() || self.process().incarnation != question.of.incarnation {
            return self.end(question, "absence is not believed");
        }
        match question.kind {
            Fence => self.answer_fence(question),
            Page => self.take_page(question),
            Check => {
                let words = ["by the check", IDS[usize::from(question.id)], ABSENT];
                self.push(self.answered(question, None), words);
            }
            Load => {
                let now = self.state.redis.bits.map_or(0, |bits| bits.stamp);
                let stamp = if self.has(R18FirstHeader) { question.of.stamp } else { now };
                let copy = Some(Filter { stamp, ..question.of });
                self.push(self.answered(question, copy), ["Load", "gives B another copy", ""]);
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

    pub(super) fn end(&mut self, question: Question, why: &'static str) {
        let words = [question.kind.into(), "ends without an answer:", why];
        self.push(self.answered(question, None), words);
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
