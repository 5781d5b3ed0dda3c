//! What must hold of Redis at every moment, beside the promise to the clients.

use crate::filter::Header;
use crate::filter::lengths::TRAILER_LEN;
use crate::model::keyspace::{Bytes, Value};
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::{oracle, scripts};

/// The live filter before a swap, where the metadata name it: over older ones that were put back, a rebuild of theirs goes live.
pub(crate) struct Before {
    bits: Bytes,
    live: Option<Header>,
}

/// Looks at a process before it executes a command; at a swap only.
pub(crate) fn before(node: &mut Node, command: &[Bytes]) -> Option<Before> {
    let swap = scripts::name_of(command) == "swap.lua";
    let [_next, bits, meta, ..] = scripts::keys_of(command) else { return None };
    swap.then(|| {
        let named = named(node, meta);
        let live = live(node, bits).filter(|header| Some(header.generation.get()) == named);
        Before { bits: bits.clone(), live }
    })
}

/// The generation that the metadata name as live.
fn named(node: &mut Node, meta: &[u8]) -> Option<i64> {
    let Some(Value::Hash(fields)) = node.keys.get(meta) else { return None };
    std::str::from_utf8(fields.get(b"live".as_slice())?).ok()?.parse().ok()
}

/// Looks again after it.
pub(crate) fn after(node: &mut Node, before: Option<&Before>, reply: &Reply, now_ms: u64) {
    let Some(Before { bits, live: before }) = before else { return };
    if *reply != Reply::bulk("OK") {
        return;
    }
    oracle::swapped(bits, now_ms);
    if node.keys.ends(bits).is_some() {
        oracle::violated(format!("{now_ms} ms: a filter went live with a time to live"));
    }
    let after = live(node, bits);
    if after.is_none_or(|header| trailer(node, bits) != header.trailer()) {
        oracle::violated(format!("{now_ms} ms: something went live that is no whole filter"));
    }
    if let (Some(before), Some(after)) = (*before, after)
        && before.generation >= after.generation
    {
        let (old, new) = (before.generation, after.generation);
        oracle::violated(format!("{now_ms} ms: generation {new} went live over {old}"));
    }
}

/// What the live key ends with.
fn trailer(node: &mut Node, bits: &[u8]) -> Vec<u8> {
    match node.keys.get(bits) {
        Some(Value::Text(text)) if text.len() >= TRAILER_LEN => {
            text[text.len() - TRAILER_LEN..].to_vec()
        }
        _ => Vec::new(),
    }
}

/// The live filter, if the key holds a whole one.
fn live(node: &mut Node, bits: &[u8]) -> Option<Header> {
    let Some(Value::Text(text)) = node.keys.get(bits) else { return None };
    Header::decode(text).ok().filter(|header| header.string_len() == text.len() as u64)
}
