//! What Redis is reached with, beside its URL: [user and password](Credentials) that change, and [TLS](crate::Builder::tls)
//! with certificates of one's own.
//!
//! A URL may have a user and a password that stay, and TLS with the system's root certificates:
//! [`Builder::redis`](crate::Builder::redis).

pub use crate::store::link::credentials::Credentials;
#[cfg(feature = "tls")]
pub use crate::store::link::tls::TlsSettings;
