//! A null: a handler found no row, and Redis is told to remember that. Later requests are answered by it.

use super::{Steps, Turn};
use crate::instance::{Event, HANDLER};
use crate::rules::Rule;
use crate::state::{IDS, Unfound};

impl Turn<'_> {
    pub(super) fn null(&self, steps: &mut Steps) {
        if self.model.of.nulls == 0 {
            return;
        }
        match self.process().unfound {
            None => self.find_nothing(steps),
            Some(unfound) => self.store_null(&unfound, steps),
        }
        self.answer_by_null(steps);
    }

    fn find_nothing(&self, steps: &mut Steps) {
        let process = self.process();
        let may = self.believes() && self.header(process.incarnation).is_some();
        if process.left.nulls == 0 || !may {
            return;
        }
        for id in (0..self.model.of.ids).filter(|id| !self.state.rows.has(*id)) {
            let unfound = Unfound {
                id: u8::from(id == 1),
                asked: self.state.now,
                incarnation: process.incarnation,
            };
            let next = self.with(|process| {
                process.left.nulls -= 1;
                process.unfound = Some(unfound);
            });
            let (of, name) = (IDS[id], self.name());
            steps.step(next, |_| format!("a request for {of} at {name} passes, and finds no row"));
        }
    }

    fn store_null(&self, unfound: &Unfound, steps: &mut Steps) {
        let (process, redis, now) = (self.process(), &self.state.redis, self.state.now);
        let (id, recent, has) =
            (usize::from(unfound.id), &redis.recent, |rule| self.model.has(rule));
        let is_lately = |time: u8| time + self.model.of.kept >= now;
        let is_joined = process.incarnation == unfound.incarnation
            && redis.meta.incarnation == unfound.incarnation;
        let live = self.header(process.incarnation);
        let refused = !process.is_connected
            || live.is_none()
            || !is_joined
            || has(Rule::R19Recent) && recent.numbers[id] > 0
            || has(Rule::R19Greatest) && recent.greatest() != redis.meta.last
            || has(Rule::R19Floor) && recent.floor_counts && is_lately(recent.floor_time)
            // A process has given up to repeat its own.
            || redis.meta.unvouched > 0 && is_lately(redis.meta.unvouched - 1)
            || has(Rule::R19InTime) && now > unfound.asked + HANDLER;
        let mut next = self.with(|process| process.unfound = None);
        let (of, name) = (IDS[id], self.name());
        if refused {
            return steps.step(next, |_| format!("{name} stores no null for {of}"));
        }
        next.redis.nulls.add(id);
        next.redis.nulls_of = live.map_or(0, |bits| bits.token);
        steps.event(Event::NullStored, next, |_| format!("{name} stores a null for {of}"));
    }

    fn answer_by_null(&self, steps: &mut Steps) {
        let (process, redis) = (self.process(), &self.state.redis);
        let wrong = redis.nulls.and(self.state.rows);
        let Some(bits) = self.header(process.incarnation).filter(|_| self.believes()) else {
            return;
        };
        let is_joined = redis.meta.incarnation == process.incarnation;
        let is_valid = redis.nulls_of == bits.token && bits.stamp >= redis.meta.last;
        if !wrong.is_empty() && is_joined && is_valid {
            steps.event(Event::FalseAbsence, *self.state, |_| {
                let (of, name) = (wrong.first(), self.name());
                format!("a request for {of} at {name}: by a null it is ABSENT, but is committed")
            });
        }
    }
}
