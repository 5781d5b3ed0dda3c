//! The load of a copy, a piece for each id.

use super::{Steps, Turn};
use crate::instance::{Event, Reading};
use crate::rules::Rule;
use crate::state::{FilterCopy, IDS, Ids, Load};

impl Turn<'_> {
    pub(super) fn load(&self, steps: &mut Steps) {
        match self.process().load {
            None => self.begin_load(steps),
            Some(load) => self.go_on_loading(&load, steps),
        }
    }

    fn begin_load(&self, steps: &mut Steps) {
        let process = self.process();
        let has = |token: u8| process.copy.is_some_and(|copy| copy.token == token);
        let live = self.header(process.incarnation).filter(|bits| !has(bits.token));
        if process.left.loads == 0 || !self.believes() || live.is_none() {
            return;
        }
        let mut next = self.with(|process| process.left.loads -= 1);
        let first = self.model.load_readings[0];
        let Some(evidence) = self.read(first, &self.evidence(None), &mut next) else { return };
        next.processes[self.me].load = Some(Load { evidence, ..Load::default() });
        steps.step(next, |_| format!("{} begins to load a copy: {first:?}", self.name()));
    }

    fn go_on_loading(&self, load: &Load, steps: &mut Steps) {
        let readings = self.model.load_readings;
        let Some(reading) = Self::reading(readings, &load.evidence) else { return };
        let give_up = |why: &str, steps: &mut Steps| {
            let next = self.with(|process| process.load = None);
            steps.step(next, |_| format!("{} gives up to load a copy: {why}", self.name()));
        };
        if !self.process().is_connected {
            return give_up("its connection is gone", steps);
        }
        if reading == Reading::Asked {
            return self.read_piece(load, steps);
        }
        let mut next = *self.state;
        let Some(evidence) = self.read(reading, &load.evidence, &mut next) else {
            return give_up(&format!("the {reading:?} speaks against it"), steps);
        };
        if usize::from(evidence.read) < readings.len() {
            next.processes[self.me].load = Some(Load { evidence, ..*load });
            return steps.step(next, |_| format!("{}'s load reads the {reading:?}", self.name()));
        }
        if !self.believes() || self.process().incarnation != evidence.incarnation {
            return give_up("another incarnation is joined", steps);
        }
        let now = self.state.redis.bits.map_or(0, |bits| bits.stamp);
        let is_right = self.model.has(Rule::R18FirstHeader);
        let copy = FilterCopy {
            token: evidence.token,
            nonce: evidence.nonce,
            ids: load.ids,
            position: if is_right { evidence.stamp } else { now },
        };
        let process = &mut next.processes[self.me];
        (process.load, process.copy) = (None, Some(copy));
        steps.event(Event::CopyLoaded, next, |_| {
            format!("{} has a copy with {} up to {}", self.name(), copy.ids, copy.position)
        });
    }

    fn read_piece(&self, load: &Load, steps: &mut Steps) {
        let mut next = *self.state;
        let mut read = *load;
        let id = usize::from(load.pieces);
        read.pieces += 1;
        if read.pieces as usize == self.model.of.ids {
            read.evidence.read += 1;
        }
        let piece = self.state.redis.bits.map(|bits| {
            // Bits of another filter say nothing of an id.
            let is_same = bits.nonce == load.evidence.nonce;
            if is_same { bits.ids.and(Ids::only(id)) } else { Ids::default() }
        });
        read.ids.add_all(piece.unwrap_or_default());
        next.processes[self.me].load = piece.map(|_| read);
        steps.step(next, |_| match piece {
            None => format!("{}'s load finds no filter", self.name()),
            Some(piece) => format!("{}'s load reads the bits of {}: {piece}", self.name(), IDS[id]),
        });
    }
}
