//! The search: all states, those of few steps first, so that the first trace that is found is a shortest one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::instance::{ABSENT, HOLDS, Instance};
use crate::state::State;
use crate::steps::{Steps, list};

/// Beyond so many states the search gives up.
const LIMIT: usize = 40_000_000;

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) verdict: &'static str,
    pub(crate) states: usize,
    /// The steps to what breaks the promise, or to what was to be reached.
    pub(crate) trace: Vec<String>,
}

/// Where a state came from: the place of another one, and which of the steps there.
type Origin = (u32, u16);

/// Searches an instance.
pub(crate) fn search(model: &Instance) -> Found {
    let mut seen = HashSet::from([fingerprint(&model.first())]);
    let mut origins = vec![(0, 0)];
    let mut level = vec![model.first()];
    let mut begin = 0;
    let mut steps = Steps::new();
    let found = |verdict, states, trace| Found { verdict, states, trace };
    while !level.is_empty() {
        let end = origins.len();
        let mut further = Vec::new();
        for (parent, state) in (begin as u32..).zip(&level) {
            list(model, state, &mut steps);
            for (step, (next, words)) in (0..).zip(&steps) {
                let is_end = |word: &&&str| **word == ABSENT || **word == model.expected;
                if let Some(verdict) = words.iter().find(is_end) {
                    return found(verdict, origins.len(), trace(model, &origins, (parent, step)));
                }
                if seen.insert(fingerprint(next)) {
                    origins.push((parent, step));
                    further.push(*next);
                }
            }
            if origins.len() > LIMIT {
                return found("has too many states", origins.len(), Vec::new());
            }
        }
        begin = end;
        level = further;
    }
    found(HOLDS, origins.len(), Vec::new())
}

/// Walks from the first state to this step, and says what happens.
fn trace(model: &Instance, origins: &[Origin], last: Origin) -> Vec<String> {
    let mut path = vec![last];
    while let Some((parent @ 1.., _)) = path.last() {
        path.push(origins[*parent as usize]);
    }
    let (mut state, mut steps, mut said) = (model.first(), Steps::new(), Vec::new());
    for (_, step) in path.into_iter().rev() {
        list(model, &state, &mut steps);
        let (next, words) = steps[usize::from(step)];
        let facts = if next.redis == state.redis { String::new() } else { next.redis.facts() };
        said.push(format!("{:<58} {facts}", words.join(" ").trim()));
        state = next;
    }
    said
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
