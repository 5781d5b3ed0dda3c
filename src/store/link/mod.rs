//! A Redis, as any store uses it: how connections are made, watched, used and given up. Nothing here knows a key.
//!
//! | file | what |
//! |---|---|
//! | `node` | a Redis: a link for each kind of work, and the checks that wait for it |
//! | `endpoint` | where Redis is: a URL that has been read |
//! | `resp` | RESP2: commands packed, replies read where they lie |
//! | `dial` | opens connections |
//! | `pump` | an open connection: requests out, replies in |
//! | `wire` | one exchange on an open connection, and what its errors mean |
//! | `process` | which Redis process answers, and what it may evict |
//! | `handshake` | what a new connection does before it is used |
//! | `stall` | notices that Redis does not answer any more |
//! | `outage` | what links tell each other; one line in the log when Redis is lost, and one when it is back |
//! | `queue` | checks that wait to be sent, and leave in batches |
//! | `connection` | keeps one connection open for each kind of work |
//! | `script`, `reply`, `refusal` | scripts, and what the answers mean |

pub(crate) mod connection;
pub(crate) mod dial;
pub(crate) mod endpoint;
pub(crate) mod handshake;
pub(crate) mod node;
pub(crate) mod outage;
pub(crate) mod process;
mod pump;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod resp;
pub(crate) mod script;
mod stall;
pub(crate) mod wire;
