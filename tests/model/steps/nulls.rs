//! A null: a handler found no row, and Redis is told to remember that. Later requests are answered by it.

use super::{Steps, Turn};
use crate::instance::{Event, HANDLER};
use crate::rules::Rule;
use crate::state::{IDS, Unfound};

impl Turn<'_> {
    pub(super) fn null(&self, steps: &mut Steps) {
        match self.process().unfound {
            _ if self.model.of.nulls == 0 => return,
            None => self.find_nothing(steps),
            Some(unfound) => self.store_null(&unfound, steps),
        }
        self.answer_by_null(steps);
    }

    fn find_nothing(&self, steps: &mut Steps) {
        let process = self.process();
        let is_live = self.header(process.incarnation).is_some();
        let may = process.left.nulls > 0 && self.believes() && is_live;
        for id in (0..self.model.of.ids).filter(|id| may && !self.state.rows.has(*id)) {
            let (asked, incarnation) = (self.state.now, process.incarnation);
            let next = self.with(|process| {
                process.left.nulls -= 1;
                process.unfound = Some(Unfound { id: u8::from(id == 1), asked, incarnation });
            });
            steps
                .step(next, ["a request at B", "passes, and its handler finds no row of", IDS[id]]);
        }
    }

    fn store_null(&self, unfound: &Unfound, steps: &mut Steps) {
        let (redis, now, has) = (&self.state.redis, self.state.now, |rule| self.model.has(rule));
        let (id, recent, unvouched) =
            (usize::from(unfound.id), &redis.recent, redis.meta.unvouched);
        let is_lately = |time: u8| time + self.model.of.kept >= now;
        let live = self.header(unfound.incarnation);
        let is_joined = self.is_joined() && self.process().incarnation == unfound.incarnation;
        let refused = !self.process().is_connected
            || !is_joined
            || has(Rule::R19Recent) && recent.numbers[id] > 0
            || has(Rule::R19Greatest) && recent.greatest() != redis.meta.last
            || has(Rule::R19Floor) && recent.floor_counts && is_lately(recent.floor_time)
            // A process has given up to repeat its own.
            || unvouched > 0 && is_lately(unvouched - 1)
            || has(Rule::R19InTime) && now > unfound.asked + HANDLER;
        let mut next = self.with(|process| process.unfound = None);
        let Some(live) = live.filter(|_| !refused) else {
            return steps.step(next, ["B", "may store no null for", IDS[id]]);
        };
        next.redis.nulls.add(id);
        next.redis.nulls_of = live.token;
        steps.event(Event::NullStored, next, ["B", "stores a null for", IDS[id]]);
    }

    fn answer_by_null(&self, steps: &mut Steps) {
        let (process, redis) = (self.process(), &self.state.redis);
        let live = self.header(process.incarnation).filter(|_| self.believes() && self.is_joined());
        let is_valid = |token, stamp| redis.nulls_of == token && stamp >= redis.meta.last;
        let is_null = live.is_some_and(|bits| is_valid(bits.token, bits.stamp));
        let wrong = |id: &usize| redis.nulls.has(*id) && self.state.rows.has(*id);
        if let Some(id) = (0..2).find(wrong).filter(|_| is_null) {
            let absent = Event::FalseAbsence;
            steps.event(absent, *self.state, ["by the null", IDS[id], absent.says()]);
        }
    }
}
