//! The protocol with Redis: connections, TLS, rebuilds.

mod connection;
mod rebuild;
mod tls;
