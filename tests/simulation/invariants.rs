//! What must hold of Redis at every moment, beside the promise to the clients.

use crate::filter::Header;
use crate::filter::format::{STAMP_FROM_END, TRAILER_LEN, TRAILER_NUMBER_FROM_END};
use crate::model::keyspace::Value;
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::oracle;

const BITS: &[u8] = b"bg:{sim}:bits";

/// The live filter before a swap.
#[derive(Clone, Copy)]
pub(crate) struct Before(Option<Header>);

/// Looks at a process before it executes a command; at a swap only.
pub(crate) fn before(node: &mut Node, name: &str) -> Option<Before> {
    (name == "swap.lua").then(|| Before(live(node)))
}

/// Looks again after it.
pub(crate) fn after(node: &mut Node, before: Option<&Before>, reply: &Reply, now_ms: u64) {
    let Some(Before(before)) = before.copied() else { return };
    if *reply != Reply::bulk("OK") {
        return;
    }
    oracle::swapped(now_ms);
    if node.keys.ends(BITS).is_some() {
        oracle::violated(format!("{now_ms} ms: a filter went live with a time to live"));
    }
    let after = live(node);
    if after.is_none_or(|header| trailer(node) != header.trailer()) {
        oracle::violated(format!("{now_ms} ms: something went live that is no whole filter"));
    }
    if let (Some(before), Some(after)) = (before, after)
        && before.generation >= after.generation
    {
        let (old, new) = (before.generation, after.generation);
        oracle::violated(format!("{now_ms} ms: generation {new} went live over {old}"));
    }
}

/// What the live key ends with, but for its stamp.
fn trailer(node: &mut Node) -> Vec<u8> {
    match node.keys.get(BITS) {
        Some(Value::Text(text)) if text.len() >= TRAILER_LEN => {
            let mut trailer = text[text.len() - TRAILER_LEN..].to_vec();
            trailer[TRAILER_LEN - STAMP_FROM_END..TRAILER_LEN - TRAILER_NUMBER_FROM_END].fill(0);
            trailer
        }
        _ => Vec::new(),
    }
}

/// The live filter, if the key holds a whole one.
fn live(node: &mut Node) -> Option<Header> {
    let Some(Value::Text(text)) = node.keys.get(BITS) else { return None };
    Header::decode(text).ok().filter(|header| header.string_len() == text.len() as u64)
}
