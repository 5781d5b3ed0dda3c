//! A null: a handler found no row, and Redis is told to remember that. Later requests are answered by it.

use super::Turn;
use crate::instance::{ABSENT, HANDLER};
use crate::rules::Rule::*;
use crate::state::{IDS, Unfound};

impl Turn<'_> {
    pub(super) fn null(&mut self) {
        match self.process().unfound {
            None => self.find_nothing(),
            Some(unfound) => self.store_null(unfound),
        }
        self.answer_by_null();
    }

    fn find_nothing(&mut self) {
        let process = self.process();
        let incarnation = process.incarnation;
        let is_live = self.header(incarnation).is_some();
        let may = process.nulls > 0 && self.believes() && is_live;
        for id in (0..self.model.ids).filter(|id| may && !self.state.rows.has(*id)) {
            let unfound = Unfound { id: id as u8, asked: self.state.now, incarnation };
            let mut next = self.with(|process| process.unfound = Some(unfound));
            next.processes[self.me].nulls -= 1;
            let what = "passes, and its handler finds no row of";
            self.push(next, ["a request at B", what, IDS[id]]);
        }
    }

    fn store_null(&mut self, unfound: Unfound) {
        let (redis, now, has) = (&self.state.redis, self.state.now, |rule| self.has(rule));
        let (id, recent) = (usize::from(unfound.id), &redis.recent);
        let unvouched = redis.meta.unvouched;
        let is_lately = |time: u8| time + self.model.kept >= now;
        let is_joined = self.is_joined() && self.process().incarnation == unfound.incarnation;
        let is_refused = !self.process().is_connected
            || !is_joined
            || has(R19Recent) && recent.numbers[id] > 0
            || has(R19Greatest) && recent.greatest() != redis.meta.last
            || has(R19Floor) && recent.floor_counts && is_lately(recent.floor_time)
            // A process has given up to repeat its own.
            || unvouched > 0 && is_lately(unvouched - 1)
            || has(R19InTime) && now > unfound.asked + HANDLER;
        let mut next = self.with(|process| process.unfound = None);
        let Some(live) = self.header(unfound.incarnation).filter(|_| !is_refused) else {
            return self.push(next, ["B", "may store no null for", IDS[id]]);
        };
        next.redis.nulls.add(id);
        next.redis.nulls_of = live.token;
        self.push(next, ["B", "stores a null for", IDS[id]]);
    }

    fn answer_by_null(&mut self) {
        let (redis, rows) = (&self.state.redis, self.state.rows);
        let live = self.header(self.process().incarnation);
        let is_valid =
            live.is_some_and(|bits| redis.nulls_of == bits.token && bits.stamp >= redis.meta.last);
        let wrong = (0..2).find(|id| redis.nulls.has(*id) && rows.has(*id));
        if let Some(id) = wrong.filter(|_| is_valid && self.believes() && self.is_joined()) {
            self.push(*self.state, ["by the null", IDS[id], ABSENT]);
        }
    }
}
