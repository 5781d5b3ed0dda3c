//! The servers that a filter is on, or will be.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bloom_guard::StoreError;
use bloom_guard::inspect::{Said, Server};

/// How many keys are tried to find one for each primary: most that there may be have a slot in hundreds.
const TRIED: usize = 10_000;

/// A server.
pub(crate) struct Node {
    /// Where it is, as its cluster says.
    pub(crate) address: String,
    /// What keys on it begin with that are no filter's; nothing where none was found.
    pub(crate) prefix: Option<String>,
    /// The keys of a filter, and these.
    pub(crate) pattern: String,
}

impl Node {
    /// Returns the only one that a filter is on.
    pub(crate) fn only(name: &str, is_in_shards: bool) -> Self {
        let (prefix, pattern) = if is_in_shards {
            // No shard's own key: only a pattern that is for all allows it.
            (format!("bg:{{{name}#doctor}}:"), format!("bg:{{{name}#*"))
        } else {
            (format!("bg:{{{name}}}:doctor:"), format!("bg:{{{name}}}:*"))
        };
        Self { address: "Redis".to_owned(), prefix: Some(prefix), pattern }
    }
}

/// Returns the primaries of the cluster that a server is of. The keys are of a filter in shards, and of none of them.
pub(crate) async fn primaries(server: &Server, name: &str) -> Result<Vec<Node>, StoreError> {
    let ranges = server.ask(&["CLUSTER", "SLOTS"]).await?;
    let mut slots: BTreeMap<String, Vec<RangeInclusive<i64>>> = BTreeMap::new();
    for range in ranges.list() {
        if let [Said::Int(first), Said::Int(last), primary, ..] = range.list()
            && let [host, port, ..] = primary.list()
        {
            let address = format!("{}:{}", host.text(), port.text());
            slots.entry(address).or_default().push(*first..=*last);
        }
    }
    let mut prefixes = BTreeMap::new();
    for number in 0..TRIED {
        if prefixes.len() == slots.len() {
            break;
        }
        let prefix = format!("bg:{{{name}#doctor-{number}}}:");
        let Said::Int(slot) = server.ask(&["CLUSTER", "KEYSLOT", &prefix]).await? else { break };
        let serves = |(_, ranges): &(_, &Vec<RangeInclusive<_>>)| {
            ranges.iter().any(|range| range.contains(&slot))
        };
        if let Some((address, _)) = slots.iter().find(serves) {
            prefixes.entry(address.clone()).or_insert(prefix);
        }
    }
    let node = |address: String| {
        let pattern = format!("bg:{{{name}#*");
        Node { prefix: prefixes.remove(&address), address, pattern }
    };
    Ok(slots.into_keys().map(node).collect())
}
