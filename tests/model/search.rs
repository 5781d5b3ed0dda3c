//! The search: all states, those of few steps first, so that the first trace that is found is a shortest one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::instance::{ABSENT, HOLDS, Instance};
use crate::state::State;
use crate::steps::{Steps, list};

/// Beyond so many states the search gives up.
const LIMIT: usize = 40_000_000;

/// Searches an instance. Returns how it ends, how many states that took, and the steps to that end.
pub(crate) fn search(model: &Instance) -> (&'static str, usize, Vec<String>) {
    let mut seen = HashSet::from([fingerprint(&model.first())]);
    // The place of the state from which each came, and by which of the steps there.
    let mut origins = vec![(0, 0)];
    let mut level = vec![model.first()];
    let mut begin = 0;
    let mut steps = Steps::new();
    while !level.is_empty() && origins.len() < LIMIT {
        let end = origins.len();
        let mut further = Vec::new();
        for (parent, state) in (begin as u32..).zip(&level) {
            list(model, state, &mut steps);
            for (step, (next, words)) in (0..).zip(&steps) {
                let is_end = |word: &&&str| **word == ABSENT || **word == model.expected;
                if let Some(word) = words.iter().find(is_end) {
                    return (word, origins.len(), trace(model, &origins, (parent, step)));
                }
                if seen.insert(fingerprint(next)) {
                    origins.push((parent, step));
                    further.push(*next);
                }
            }
        }
        begin = end;
        level = further;
    }
    let end = if level.is_empty() { HOLDS } else { "has too many states" };
    (end, origins.len(), Vec::new())
}

/// Walks from the first state to this step, and says what happens.
fn trace(model: &Instance, origins: &[(u32, u16)], last: (u32, u16)) -> Vec<String> {
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
    let mut bytes = Bytes(Vec::with_capacity(512));
    state.hash(&mut bytes);
    bytes.finish()
}

/// Takes nearly half the time of hashing each field by itself, as each is but a byte.
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
