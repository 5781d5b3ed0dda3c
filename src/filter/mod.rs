//! The filter itself: its size, its bits and its stored bytes.
//!
//! Everything here is pure: no I/O, no clock, no task. [`Sizing`] turns "a number of ids at a
//! false-positive rate" into blocks and hashes, [`Geometry`] turns a [`Digest`](crate::id::Digest) into
//! the [`Position`] of its bits, [`Filter`] holds the bits in memory, and [`format`](mod@format) says
//! byte by byte what they look like in Redis.

mod block;
mod generation;
pub(crate) mod lengths;
mod memory;
mod rate;
mod sizing;
#[cfg(feature = "redis")]
mod stored;

pub(crate) use block::{Geometry, Membership};
pub use generation::Generation;
pub(crate) use memory::Filter;
pub use sizing::Sizing;
pub(crate) use sizing::bounded;
#[cfg(feature = "redis")]
pub(crate) use stored::{Header, Position, State, format, newer};
