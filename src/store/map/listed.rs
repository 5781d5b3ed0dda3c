//! The nodes of a cluster beside those that its URL names: they may all have been replaced since, one by one.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::server::Server;
use crate::random;

/// How many are kept in mind.
const KEPT: usize = 16;
/// After how long at the latest a guard asks anew which there are.
const AFRESH: Duration = Duration::from_secs(60);

/// Nodes that the last map lists, and when the next one is due.
#[derive(Default)]
pub(super) struct Listed(Mutex<(Vec<Server>, Option<Instant>)>);

impl Listed {
    /// Returns the nodes, in any order.
    pub(super) fn nodes(&self) -> Vec<Server> {
        self.with(|nodes, _| shuffled(nodes.clone()))
    }

    /// Keeps these in mind instead of those before.
    pub(super) fn keep(&self, nodes: Vec<Server>) {
        let mut kept = shuffled(nodes);
        kept.truncate(KEPT);
        self.with(|nodes, _| *nodes = kept);
    }

    /// Notes that a map is asked for.
    pub(super) fn note_asked(&self) {
        // Processes that begin together do not ask together.
        let rest = AFRESH.mul_f64(0.5 + random::fraction() / 2.0);
        self.with(|_, due| *due = Some(Instant::now() + rest));
    }

    /// Whether somebody has to ask for a map: whoever is told so.
    pub(super) fn is_due(&self) -> bool {
        let is_due = self.with(|_, due| due.is_none_or(|due| due <= Instant::now()));
        if is_due {
            self.note_asked();
        }
        is_due
    }

    fn with<T>(&self, see: impl FnOnce(&mut Vec<Server>, &mut Option<Instant>) -> T) -> T {
        let (nodes, due) = &mut *self.0.lock();
        see(nodes, due)
    }
}

/// Returns nodes in any order.
pub(super) fn shuffled(mut nodes: Vec<Server>) -> Vec<Server> {
    nodes.sort_by_cached_key(|_| random::scatter());
    nodes
}
