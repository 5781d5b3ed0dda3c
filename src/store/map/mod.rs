//! Where Redis is: a URL that has been read, and who says which server to connect to.
//!
//! | file | what |
//! |---|---|
//! | `endpoint` | where Redis is |
//! | `url` | reads one |
//! | `named` | a server that somebody names, who was named last, and who was named again |
//! | `sentinel` | connects to the server that a majority of the Sentinels names |
//! | `cluster` | connects to the node of a cluster that serves a slot |

pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod named;
mod sentinel;
mod url;
