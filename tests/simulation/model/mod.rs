//! A model of Redis: as much of it as the guard's commands and scripts can tell from the real one.

pub(crate) mod hashes;
pub(crate) mod keyspace;
pub(crate) mod lua;
pub(crate) mod node;
pub(crate) mod reply;
pub(crate) mod strings;
pub(crate) mod zsets;
