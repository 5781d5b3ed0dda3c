//! The guard is never the outage: it waits for no longer, holds no more and refuses no more than it says.

mod away;
mod copied;
mod policies;
mod price;
mod stall;
