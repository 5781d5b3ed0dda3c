//! The filter itself: its size, its stored bytes and its bits.
//!
//! Everything here is pure: no I/O, no clock, no task. [`Sizing`] turns "so many ids at such a
//! false-positive rate" into blocks and hashes, [`Geometry`] turns a [`Digest`](crate::Digest) into
//! the [`Position`] of its bits, [`Filter`] holds the bits in memory, and [`format`](mod@format) says
//! byte by byte what they look like in Redis.
//!
//! ```
//! use bloom_guard::filter::{Filter, Membership, Sizing};
//! use bloom_guard::{Digester, Id, SecretKey};
//!
//! let sizing = Sizing::new(1_000_000, 0.001)?;
//! let filter = Filter::new(sizing.geometry(0x5eed));
//!
//! let digester = Digester::new(&SecretKey::new([7; 16]), "users");
//! let created = digester.digest(&Id::display(&42)?);
//! let invented = digester.digest(&Id::display(&43)?);
//!
//! filter.insert(&created);
//! assert_eq!(filter.lookup(&created), Membership::Possible);
//! assert_eq!(filter.lookup(&invented), Membership::Never);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
pub mod format;
mod header;
mod memory;
mod rate;
mod sizing;
mod state;

pub(crate) use block::Span;
pub use block::{Geometry, Membership, Position};
pub use format::{FormatError, MAX_HASHES};
pub use header::Header;
pub use memory::Filter;
pub use sizing::{MAX_CAPACITY, MAX_RATE, MIN_CAPACITY, MIN_RATE, Sizing, SizingError};
pub use state::{Generation, State};
