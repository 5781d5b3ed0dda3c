//! Where Redis is: a URL that has been read, and who says which server to connect to.
//!
//! | file | what |
//! |---|---|
//! | `endpoint` | a URL of one server, or of Sentinels |
//! | `sentinel_url` | reads the URL that names Sentinels |
//! | `sentinel` | connects to the server that a majority of the Sentinels names |

pub(crate) mod endpoint;
mod sentinel;
mod sentinel_url;
