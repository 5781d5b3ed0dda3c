//! Which guards live in this process: two of one name on one Redis are told of.
//!
//! They are not refused. The protocol takes them for two processes, and an application that reads its settings
//! anew, or whose tests run side by side, builds one guard while another lives.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::background::Background;
use crate::middleware::layer::BloomGuard;
use crate::store::map::endpoint::Endpoint;

/// Name and Redis of each guard, for as long as that lives.
static REGISTRY: Mutex<Vec<(String, Weak<Background>)>> = Mutex::new(Vec::new());

/// Notes a guard on a Redis, and warns if there is one of this name already.
pub(super) fn note(guard: &BloomGuard, redis: &Endpoint) {
    let (name, redis) = (guard.guard.name(), format!("{redis:?}"));
    let key = format!("{name} {redis}");
    let mut registry = REGISTRY.lock();
    registry.retain(|(_, other)| other.strong_count() > 0);
    let is_second = registry.iter().any(|(other, _)| *other == key);
    registry.push((key, Arc::downgrade(&guard.background)));
    drop(registry);
    if is_second {
        tracing::warn!(
            parent: None,
            filter = &**name,
            redis,
            "another guard of this name lives in this process, with connections, a lane and ids found lately of its \
             own: clone that one. If the two guard other records, each refuses what only the other's source gives: \
             name them apart"
        );
    }
}
