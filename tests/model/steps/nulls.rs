//! A null: a handler found no row, and Redis is told to remember that. Later requests are answered by it.

use super::Turn;
use crate::instance::{ABSENT, HANDLER};
use crate::rules::Rule::*;
use crate::state::{Filter, IDS, Redis, Unfound};

impl Turn<'_> {
    pub(super) fn null(&mut self) {
        let process = self.process();
        let incarnation = process.incarnation;
        let live = self.header(incarnation).filter(|_| self.believes());
        let Redis { meta, nulls, nulls_of, .. } = self.state.redis;
        for (id, x_or_y) in (0..self.model.ids).zip(IDS) {
            let has_row = self.state.rows.has(id);
            if process.unfound.is_none() && process.nulls > 0 && live.is_some() && !has_row {
                let asked = self.state.now;
                let next = self.with(|process| {
                    process.unfound = Some(Unfound { id: id as u8, asked, incarnation });
                    process.nulls -= 1;
                });
                self.push(next, ["a request at B", "passes, but there is no row of", x_or_y]);
            }
            let is_valid = |live: Filter| live.token == nulls_of && live.stamp >= meta.last;
            if nulls.has(id) && has_row && self.is_joined() && live.is_some_and(is_valid) {
                self.push(*self.state, ["by the null", x_or_y, ABSENT]);
            }
        }
        if let Some(unfound) = process.unfound {
            self.store_null(unfound);
        }
    }

    fn store_null(&mut self, unfound: Unfound) {
        let Redis { recent, meta, .. } = &self.state.redis;
        let (id, now) = (usize::from(unfound.id), self.state.now);
        let has = |rule| self.has(rule);
        let is_lately = |time: u8| time + self.model.kept >= now;
        let is_refused = !self.is_joined()
            || self.process().incarnation != unfound.incarnation
            || has(R19Recent) && recent.numbers[id] > 0
            || has(R19Greatest) && recent.greatest() != meta.last
            || has(R19Floor) && recent.floor_counts && is_lately(recent.floor_time)
            // A process has given up to repeat its own.
            || meta.unvouched > 0 && is_lately(meta.unvouched - 1)
            || has(R19InTime) && now > unfound.asked + HANDLER;
        let mut next = self.with(|process| process.unfound = None);
        let Some(live) = self.header(unfound.incarnation).filter(|_| !is_refused) else {
            return self.push(next, ["B", "may store no null for", IDS[id]]);
        };
        next.redis.nulls.add(id);
        next.redis.nulls_of = live.token;
        self.push(next, ["B", "stores a null for", IDS[id]]);
    }
}
