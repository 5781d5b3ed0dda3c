//! Where Redis is: a URL that has been read, and who says which server to connect to.

pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod named;
mod sentinel;
mod url;
