//! What a filter looks like in Redis: its header, its blocks, and where in the string the bits of an id are.

mod blocks;
pub(crate) mod format;
mod position;

pub(crate) use super::block::Position;
pub(crate) use format::{Header, State, newer};
