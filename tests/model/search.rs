//! The search: all states, those of few steps first, so that the first trace that is found is a shortest one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::instance::{Event, Expected, Instance};
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
pub(crate) fn search(model: &Instance) -> Found {
    let begun = Instant::now();
    let mut seen = HashSet::from([fingerprint(&model.first())]);
    let mut parents = vec![Seen { parent: 0, step: 0 }];
    let mut steps = Steps::new();
    let mut level = vec![model.first()];
    let mut further = Vec::new();
    let mut begin = 0;
    let mut end = (Some(Expected::Holds), Vec::new());
    'search: while !level.is_empty() {
        let level_end = parents.len();
        for (parent, state) in (begin as u32..).zip(&level) {
            steps::list(model, state, &mut steps);
            for (step, (next, event, _)) in (0..).zip(&steps) {
                let found = match event {
                    Some(Event::FalseAbsence) => Some(Expected::Broken),
                    event => event.map(Expected::Reached).filter(|of| *of == model.expected),
                };
                if found.is_some() {
                    end = (found, trace(model, &parents, Seen { parent, step }));
                    break 'search;
                }
                if seen.insert(fingerprint(next)) {
                    parents.push(Seen { parent, step });
                    further.push(*next);
                }
            }
            if parents.len() > model.limit {
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
fn trace(model: &Instance, parents: &[Seen], last: Seen) -> Vec<String> {
    let mut path = vec![last];
    while let Some(Seen { parent: parent @ 1.., .. }) = path.last().copied() {
        path.push(parents[parent as usize]);
    }
    let (mut state, mut steps, mut said) = (model.first(), Steps::new(), Vec::new());
    for Seen { step, .. } in path.into_iter().rev() {
        steps::list(model, &state, &mut steps);
        let (next, _, words) = steps[usize::from(step)];
        let facts = if next.redis == state.redis { String::new() } else { next.redis.facts() };
        said.push(format!("{:<58} {facts}", words.join(" ").trim()));
        state = next;
    }
    said
}

fn fingerprint(state: &State) -> u64 {
    let mut bytes = Bytes(Vec::with_capacity(512));
    state.hash(&mut bytes);
    bytes.finish()
}

/// Hashes all fields in one piece, as each is but a byte.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher.finish()
    }
}
