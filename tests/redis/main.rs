//! The protocol with Redis: connections, TLS, rebuilds.

mod connection;
mod found;
mod memory;
mod rebuild;
mod rights;
mod state;
mod tls;
mod words;
