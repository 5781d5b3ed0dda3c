//! A copy of the live filter in this process: requests for what it holds ask nobody.
//!
//! It is a hint. "Present" may come from any copy, however old, since a request that passes is never wrong; only Redis says
//! "absent". What others insert after the copy was read is absent in it, and is asked of Redis once.
//!
//! | file | what |
//! |---|---|
//! | `copies` | the copy, and what it says of an id |
//! | `load` | reads it, when a filter has gone live |
//! | `room` | how much memory all copies of a process take |

pub(crate) mod copies;
mod load;
mod room;
