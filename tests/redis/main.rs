//! The protocol with Redis: connections, TLS, rebuilds.

mod connection;
mod memory;
mod rebuild;
mod tls;
