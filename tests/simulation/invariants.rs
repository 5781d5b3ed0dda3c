//! What must hold of Redis at every moment, beside the promise to the clients.

use crate::filter::format::{STAMP_FROM_END, STATE_OFFSET, TRAILER_NUMBER_FROM_END};
use crate::filter::lengths::{HEADER_LEN, TRAILER_LEN};
use crate::filter::{Header, State};
use crate::model::keyspace::{Bytes, Value};
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::{moves, oracle, scripts};

/// The live filter before a swap.
pub(crate) struct Before {
    bits: Bytes,
    live: Option<Header>,
    /// It says that it was left for another one.
    was_left: bool,
}

/// Looks at a process before it executes a command; at a swap only.
pub(crate) fn before(node: &mut Node, command: &[Bytes]) -> Option<Before> {
    let swap = scripts::name_of(command) == "swap.lua";
    let [_next, bits, ..] = scripts::keys_of(command) else { return None };
    swap.then(|| {
        let was_left = moves::says_left(node, bits);
        Before { bits: bits.clone(), live: live(node, bits), was_left }
    })
}

/// Looks again after it.
pub(crate) fn after(node: &mut Node, before: Option<&Before>, reply: &Reply, now_ms: u64) {
    let Some(Before { bits, live: before, was_left }) = before else { return };
    if *reply != Reply::bulk("OK") {
        return;
    }
    oracle::swapped(bits, now_ms);
    if *was_left {
        oracle::violated(format!("{now_ms} ms: a filter went live where one was left"));
    }
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

/// No filter is out of use whose trailer says that it is not: some checks read no more than that.
pub(crate) fn out_of_use(node: &mut Node, command: &[Bytes], now_ms: u64) {
    for bits in scripts::keys_of(command).iter().filter(|key| key.ends_with(b":bits")) {
        let Some(Value::Text(text)) = node.keys.get(bits) else { continue };
        let Some((state, header)) = in_use(text) else { continue };
        if state != State::Live.as_byte()
            && text.ends_with(&header.trailer()[TRAILER_LEN - TRAILER_NUMBER_FROM_END..])
        {
            let name = scripts::name_of(command);
            oracle::violated(format!(
                "{now_ms} ms: after {name} the trailer of a filter vouches for it that is out of use"
            ));
        }
    }
}

/// A filter's state, and its header as it was when it was live.
fn in_use(text: &[u8]) -> Option<(u8, Header)> {
    let mut head = text.get(..HEADER_LEN)?.to_vec();
    let state = std::mem::replace(head.get_mut(STATE_OFFSET)?, State::Live.as_byte());
    Some((state, Header::decode(&head).ok()?))
}

/// What the live key ends with, but for its stamp.
fn trailer(node: &mut Node, bits: &[u8]) -> Vec<u8> {
    match node.keys.get(bits) {
        Some(Value::Text(text)) if text.len() >= TRAILER_LEN => {
            let mut trailer = text[text.len() - TRAILER_LEN..].to_vec();
            trailer[TRAILER_LEN - STAMP_FROM_END..TRAILER_LEN - TRAILER_NUMBER_FROM_END].fill(0);
            trailer
        }
        _ => Vec::new(),
    }
}

/// The live filter, if the key holds a whole one.
fn live(node: &mut Node, bits: &[u8]) -> Option<Header> {
    let Some(Value::Text(text)) = node.keys.get(bits) else { return None };
    Header::decode(text).ok().filter(|header| header.string_len() == text.len() as u64)
}
