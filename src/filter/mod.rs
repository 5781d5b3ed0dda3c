//! The filter itself: its size, its stored bytes and its bits.
//!
//! Everything here is pure: no I/O, no clock, no task. [`Sizing`] turns "a number of ids at a
//! false-positive rate" into blocks and hashes, [`Geometry`] turns a [`Digest`](crate::id::Digest) into
//! the [`Position`] of its bits, [`Filter`] holds the bits in memory, and [`format`](mod@format) says
//! byte by byte what they look like in Redis.

mod block;
pub(crate) mod format;
mod header;
mod memory;
mod rate;
mod sizing;
mod state;

pub(crate) use block::{Geometry, Membership, Position, Span};
pub(crate) use format::FormatError;
pub(crate) use header::{Header, moved};
pub(crate) use memory::{Filter, FilterReader};
pub use sizing::{Sizing, SizingError};
pub use state::Generation;
pub(crate) use state::State;
