//! The search: all states, those of few steps first, so that the first trace that is found is a shortest one.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::instance::{Event, Expected, Instance, Model};
use crate::state::State;
use crate::steps::{self, Steps};

#[derive(Debug)]
pub(crate) struct Found {
    /// `None` where there are more states than the instance allows.
    pub(crate) verdict: Option<Expected>,
    pub(crate) states: usize,
    pub(crate) took: Duration,
    /// The steps to what breaks the promise, or to what was to be reached.
    pub(crate) trace: Vec<String>,
}

/// A state that was seen: where it came from, and by which of the steps there.
#[derive(Debug, Clone, Copy)]
struct Seen {
    parent: u32,
    step: u16,
}

/// Searches an instance.
pub(crate) fn search(instance: Instance) -> Found {
    let begun = Instant::now();
    let model = Model::new(instance);
    let mut seen = HashSet::<u64, BuildHasherDefault<Fingerprint>>::default();
    let mut parents = Vec::new();
    let mut steps = Steps::default();
    seen.insert(fingerprint(&model.first()));
    parents.push(Seen { parent: 0, step: 0 });
    let mut level = vec![model.first()];
    let (mut begin, mut further) = (0, Vec::new());
    let mut end = (Some(Expected::Holds), Vec::new());
    'search: while !level.is_empty() {
        let level_end = parents.len();
        for (parent, state) in (begin as u32..).zip(&level) {
            steps::list(&model, state, &mut steps);
            for (step, (next, event, _)) in (0..).zip(&steps.0) {
                let found = match event {
                    Some(Event::FalseAbsence) => Some(Expected::Broken),
                    event => event.map(Expected::Reached).filter(|of| *of == instance.expected),
                };
                if found.is_some() {
                    end = (found, trace(&model, &parents, Seen { parent, step }));
                    break 'search;
                }
                if seen.insert(fingerprint(next)) {
                    parents.push(Seen { parent, step });
                    further.push(*next);
                }
            }
            if parents.len() > instance.limit {
                end.0 = None;
                break 'search;
            }
        }
        begin = level_end;
        std::mem::swap(&mut level, &mut further);
        further.clear();
    }
    let (verdict, trace) = end;
    Found { verdict, states: parents.len(), took: begun.elapsed(), trace }
}

/// Walks from the first state to this step, and says what happens.
fn trace(model: &Model, parents: &[Seen], last: Seen) -> Vec<String> {
    let mut path = vec![last];
    while let Some(Seen { parent: parent @ 1.., .. }) = path.last().copied() {
        path.push(parents[parent as usize]);
    }
    let (mut state, mut steps, mut said) = (model.first(), Steps::default(), Vec::new());
    for Seen { step, .. } in path.into_iter().rev() {
        steps::list(model, &state, &mut steps);
        let (next, _, words) = steps.0[usize::from(step)];
        let facts = if next.redis == state.redis { String::new() } else { next.facts() };
        said.push(format!("{:<58} {facts}", words.join(" ").trim()));
        state = next;
    }
    said
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = Fingerprint::default();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Three times as fast as the standard one, as each field is a byte. It takes them in by eights.
#[derive(Default)]
struct Fingerprint {
    mixed: u64,
    open: u64,
    bytes: u32,
}

impl Hasher for Fingerprint {
    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.open = self.open << 8 | u64::from(byte);
        self.bytes += 1;
        if self.bytes.is_multiple_of(8) {
            self.write_u64(self.open);
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.mixed ^= word.wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.mixed = self.mixed.rotate_left(29).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u8(*byte));
    }

    /// The variant of an enum.
    #[inline]
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(variant as u8);
    }

    /// The length of an array, which is always the same.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        let mixed = self.mixed ^ self.open.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 29
    }
}
