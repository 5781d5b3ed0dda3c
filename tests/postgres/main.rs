//! The promise over a real PostgreSQL, whose transactions become visible when they like.

#![expect(unreachable_pub, reason = "a test is a crate of its own")]

mod api;
mod cluster;
mod promises;
mod scan;
mod users;
