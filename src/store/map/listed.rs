//! The nodes of a cluster beside those that its URL names: they may all have been replaced since, one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::named::Server;
use crate::random;

/// How many are kept in mind.
const KEPT: usize = 16;
/// After how long at the latest a guard asks anew which there are.
const AFRESH: Duration = Duration::from_secs(60);

/// A node as a map lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedNode {
    pub(super) server: Server,
    /// What the cluster calls it for as long as it lives; empty where that is not said.
    pub(super) id: Vec<u8>,
}

/// Nodes that the last map lists, and when the next one is due.
#[derive(Default)]
pub(super) struct Listed(Mutex<(Vec<ListedNode>, Option<Instant>)>);

impl Listed {
    /// Returns where the nodes are, in any order.
    pub(super) fn servers(&self) -> Vec<Server> {
        self.with(|nodes, _| shuffled(nodes.iter().map(|node| node.server.clone()).collect()))
    }

    /// Whether a map of these nodes may be one of this cluster: where one of its nodes was, that of another cluster may be now.
    pub(super) fn shares_a_node_with(&self, nodes: &BTreeSet<ListedNode>) -> bool {
        let may_be = |one: &[u8], other: &[u8]| one.is_empty() || other.is_empty() || one == other;
        self.with(|known, _| {
            nodes.iter().any(|node| known.iter().any(|known| may_be(&known.id, &node.id)))
        })
    }

    /// Keeps these in mind instead of those before.
    pub(super) fn keep(&self, nodes: Vec<ListedNode>) {
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

    fn with<T>(&self, see: impl FnOnce(&mut Vec<ListedNode>, &mut Option<Instant>) -> T) -> T {
        let (nodes, due) = &mut *self.0.lock();
        see(nodes, due)
    }
}

/// Returns nodes in any order.
pub(super) fn shuffled<T>(mut nodes: Vec<T>) -> Vec<T> {
    nodes.sort_by_cached_key(|_| random::scatter());
    nodes
}
