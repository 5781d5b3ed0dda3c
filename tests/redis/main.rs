//! The protocol with Redis: connections, TLS, rebuilds.

mod connection;
mod copy;
mod credentials;
mod inserted;
mod joins;
mod memory;
mod names;
mod rebuild;
mod rights;
mod scripts;
mod sentinel;
mod shards;
mod state;
mod tls;
mod tls_cluster;
mod versions;
mod words;
