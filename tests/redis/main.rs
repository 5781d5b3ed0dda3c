//! The protocol with Redis: connections, TLS, rebuilds.

mod connection;
mod found;
mod rebuild;
mod tls;
