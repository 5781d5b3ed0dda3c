//! A check by id: whether all bits of an id are set.

use super::{Steps, Turn};
use crate::instance::{Event, Reading};
use crate::state::{Check, Evidence, IDS};

impl Turn<'_> {
    pub(super) fn check(&self, steps: &mut Steps) {
        if !self.model.of.checks {
            return;
        }
        match self.process().check {
            None => self.send_check(steps),
            Some(check) => self.read_for_check(&check, steps),
        }
    }

    /// A request for an id. Its first reading is made as it arrives.
    fn send_check(&self, steps: &mut Steps) {
        if !self.believes() {
            return;
        }
        for id in (0..self.model.of.ids).filter(|id| self.state.rows.has(*id)) {
            let check = |evidence: Evidence| Check { evidence, id: u8::from(id == 1) };
            let mut next = *self.state;
            let first = self.model.readings[0];
            if first != Reading::Asked {
                let Some(read) = self.read(first, &self.evidence(None), &mut next) else {
                    continue;
                };
                next.processes[self.me].check = Some(check(read));
                let name = self.name();
                steps.step(next, |_| {
                    format!("a request for {} at {name}: its check reads the {first:?}", IDS[id])
                });
                continue;
            }
            for known in self.known_filters() {
                let asked = check(self.evidence(Some(known)));
                let next = self.with(|process| process.check = Some(asked));
                let name = self.name();
                steps.step(next, |_| {
                    format!(
                        "a request for {} at {name}: the filter of token {} is asked",
                        IDS[id], known.0
                    )
                });
            }
        }
    }

    /// Filters that the process may have seen live: that of now, and that of its copy.
    fn known_filters(&self) -> Vec<(u8, u8)> {
        let process = self.process();
        let live = self.header(process.incarnation).map(|bits| (bits.token, bits.nonce));
        let copied =
            process.copy.map(|copy| (copy.token, copy.nonce)).filter(|of| Some(*of) != live);
        live.into_iter().chain(copied).collect()
    }

    fn read_for_check(&self, check: &Check, steps: &mut Steps) {
        let (readings, id) = (self.model.readings, usize::from(check.id));
        let (name, of) = (self.name(), IDS[id]);
        let end = |why: &str, steps: &mut Steps| {
            let next = self.with(|process| process.check = None);
            steps.step(next, |_| format!("{name}'s check of {of} ends: {why}"));
        };
        let Some(reading) = Self::reading(readings, &check.evidence) else { return };
        if !self.process().is_connected {
            return end("its connection is gone", steps);
        }
        if reading == Reading::Asked {
            // Of another filter the bits may be in other places.
            let Some(bits) = &self.state.redis.bits else {
                return end("there is no filter", steps);
            };
            if bits.ids.has(id) && bits.nonce == check.evidence.nonce {
                return end("its bits are set", steps);
            }
        }
        let mut next = *self.state;
        let Some(evidence) = self.read(reading, &check.evidence, &mut next) else {
            return end(&format!("the {reading:?} speaks against it"), steps);
        };
        let is_over = usize::from(evidence.read) == readings.len();
        if !is_over {
            next.processes[self.me].check = Some(Check { evidence, ..*check });
            return steps.step(next, |_| format!("{name}'s check of {of} reads the {reading:?}"));
        }
        // It is handled as it arrives.
        if !self.believes() || self.process().incarnation != evidence.incarnation {
            return end("absence is not believed", steps);
        }
        next.processes[self.me].check = None;
        steps.event(Event::FalseAbsence, next, |_| {
            format!("{name}'s check reads the {reading:?}: {of} is ABSENT, but is committed")
        });
    }
}
