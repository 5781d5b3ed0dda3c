//! The servers that a filter is on, or will be.

use std::collections::BTreeMap;

use bloom_guard::inspect::{InspectError, nodes_of};

/// How many keys are looked for to find one on each node: of a node with a hundredth of the slots there are ten.
const TRIED: usize = 1_000;

/// A server.
pub(crate) struct Node {
    /// Where it is, as its cluster says.
    pub(crate) address: String,
    /// What keys on it begin with that are no filter's.
    pub(crate) prefix: String,
    /// The keys of a filter, and these.
    pub(crate) pattern: String,
}

impl Node {
    /// Returns the only one that a filter is on.
    pub(crate) fn only(name: &str, is_in_shards: bool) -> Self {
        let (prefix, pattern) = if is_in_shards {
            // No shard's own key: only a pattern that is for all allows it.
            (format!("bg:{{{name}#doctor}}:"), of_shards(name))
        } else {
            (format!("bg:{{{name}}}:doctor:"), format!("bg:{{{name}}}:*"))
        };
        Self { address: "Redis".to_owned(), prefix, pattern }
    }
}

fn of_shards(name: &str) -> String {
    format!("bg:{{{name}#*")
}

/// Returns the primaries of a cluster.
pub(crate) async fn primaries(url: &str, name: &str) -> Result<Vec<Node>, InspectError> {
    let prefix = |number| format!("bg:{{{name}#doctor-{number}}}:");
    let prefixes: Vec<String> = (0..TRIED).map(prefix).collect();
    let mut found = BTreeMap::new();
    for (address, prefix) in nodes_of(url, &prefixes).await?.into_iter().zip(prefixes) {
        if let Some(address) = address {
            found.entry(address).or_insert(prefix);
        }
    }
    let node = |(address, prefix)| Node { address, prefix, pattern: of_shards(name) };
    Ok(found.into_iter().map(node).collect())
}
