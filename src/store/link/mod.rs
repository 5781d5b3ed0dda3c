//! A Redis, as any store uses it: how connections are made, watched, used and given up. Nothing here knows a key.
//!
//! | file | what |
//! |---|---|
//! | `node` | a Redis: its link, and the checks that wait for it |
//! | `resp` | RESP2: commands packed, replies read where they lie |
//! | `connector` | opens connections |
//! | `access` | what they are opened with, beside what the URL says |
//! | `credentials` | user and password that change: the application's provider |
//! | `tls` | whom TLS trusts, and what it shows |
//! | `driver` | an open connection: requests out, replies in |
//! | `transport` | one exchange on an open connection, and what its errors mean |
//! | `process` | which Redis process answers, and what it may evict |
//! | `handshake` | what a new session does before it is used |
//! | `breaker` | the circuit breaker: while Redis does not answer, nothing more is sent to it |
//! | `queue` | checks that wait to be sent, and leave in batches |
//! | `session` | the connections to one Redis process, and what was learnt when they were made |
//! | `supervised` | keeps a session open |
//! | `script`, `reply`, `refusal` | scripts, and what the answers mean |
//! | `attempts` | how often an insert is tried, and how long |

pub(crate) mod access;
pub(crate) mod attempts;
mod breaker;
pub(crate) mod connector;
pub(crate) mod credentials;
mod driver;
pub(crate) mod handshake;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod resp;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod supervised;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod transport;
