//! Connections to Redis: how they are made, used, watched and given up.
//!
//! | file | what |
//! |---|---|
//! | `dial` | the Redis client: opens connections and sends commands |
//! | `wire` | one exchange on an open connection, and what its errors mean |
//! | `process` | which Redis process answers, and what it may evict |
//! | `stall` | notices that Redis no longer answers |
//! | `connection` | keeps one connection open for each kind of work |

pub(crate) mod connection;
pub(crate) mod dial;
pub(crate) mod process;
mod stall;
pub(crate) mod wire;
