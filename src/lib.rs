//! A cache-penetration guard as tower middleware: requests for records that were never created are
//! answered 404 before they reach cache or database.
//!
//! A [`BloomGuard`] is a [`Layer`](tower_layer::Layer). It takes the resource id out of each request
//! and looks it up in a Bloom filter of all ids there are, kept in this process or in a Redis that all
//! instances share. What the filter lets pass and the handler still answers 404 is remembered for a
//! short while.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
//! use http::{Request, Response, StatusCode};
//! use tower::{Layer, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Users 1 to 1,000 exist. A real source reads them from the database.
//! let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}")?)
//!     .in_process()
//!     .capacity(10_000, 0.001)
//!     .rebuild(Schedule::manual(), from_iter(|| 1..=1_000_u64))
//!     .build()?;
//! guard.ready().await;
//!
//! let handler = tower::service_fn(|request: Request<String>| async move {
//!     Ok::<_, Infallible>(Response::new(format!("handled {}", request.uri())))
//! });
//! let status = async |id: u64| {
//!     let request = Request::get(format!("/users/{id}")).body(String::new())?;
//!     let response = guard.layer(handler).oneshot(request).await?;
//!     Ok::<_, Box<dyn std::error::Error>>(response.status())
//! };
//! assert_eq!(status(7).await?, StatusCode::OK);
//! assert_eq!(status(7_000).await?, StatusCode::NOT_FOUND);
//!
//! // Before the transaction that creates the record commits:
//! guard.insert(&7_000).await?;
//! assert_eq!(status(7_000).await?, StatusCode::OK);
//! # Ok(())
//! # }
//! ```
//!
//! A look-up is [present, absent or unknown](Verdict), and only a proof is an absence: a filter that is missing, damaged, foreign, of
//! another key or on another Redis process than the one it was verified on leaves a [`Doubt`]. [What becomes of a
//! request](guide::requests), what the application owes in return ([`guide::contract`]) and what an attacker can do
//! ([`guide::attackers`]) are pages of the guide.
//!
//! # Where to look
//!
//! - A page a subject, in reading order: the [`guide`].
//! - Setting up: [`Builder`], every setting with its default and bounds; [`PathPattern`], or another of [`extract`], for the id;
//!   `access` for what Redis is reached with; [`rejection`] for what is answered.
//! - Creating and deleting: [`insert`](BloomGuard::insert) before the commit, [`remove`](BloomGuard::remove) after it.
//! - Rebuilding: [`from_stream`], [`from_fn`], [`from_blocking`] and [`from_iter`], or another source of [`rebuild`]; [`Schedule`].
//! - Watching: [`state`](BloomGuard::state), [`stats`](BloomGuard::stats), and the types of [`observe`].
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `redis`, on by default | a filter in Redis, and all that is about one |
//! | `cron` | `Schedule::cron`: a rebuild at the times of a cron expression |
//! | `axum` | `extract::Captures`, which reads the id from the router's own captures |
//! | `metrics` | [counters, gauges and times](guide::operating) through the `metrics` facade |
//! | `tls`, implies `redis` | `rediss://` URLs, `access::TlsSettings` |
//! | `uuid` | re-exports `Uuid` |
//! | `cli`, implies `redis` | the command `bloom-guard` |
//!
//! A guard whose filter is in its process needs none of them: `default-features = false` takes half as long to build.

#![warn(clippy::unwrap_used)]
#![cfg_attr(
    not(all(
        feature = "redis",
        feature = "tls",
        feature = "cron",
        feature = "axum",
        feature = "metrics"
    )),
    allow(
        rustdoc::broken_intra_doc_links,
        rustdoc::private_intra_doc_links,
        reason = "the guide names what features add"
    )
)]

#[cfg(feature = "redis")]
pub mod access;
mod background;
mod builder;
#[cfg(feature = "cli")]
pub mod command;
mod decide;
mod error;
pub mod extract;
mod filter;
mod guard;
pub mod guide;
mod id;
pub mod middleware;
mod mode;
mod nulls;
pub mod observe;
mod random;
pub mod rebuild;
mod refusal;
pub mod rejection;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod verdict;

pub use builder::Builder;
pub use error::{BoxError, ConfigError, RebuildError, SettingError, StoreError};
pub use extract::PathPattern;
pub use filter::{Generation, Sizing};
pub use guard::canary::Finding;
pub use id::{Id, InvalidId, SecretKey};
pub use middleware::layer::BloomGuard;
pub use middleware::verdicts::{FoundIds, Verdicts};
pub use mode::Mode;
pub use nulls::rules::{Missing, NegativeCaching};
pub use rebuild::{Schedule, from_blocking, from_fn, from_iter, from_stream};
pub use refusal::Refusal;
pub use settings::{OnInvalid, OnUnknown};
#[cfg(feature = "redis")]
pub use store::foreign::filter::ForeignFilter;
pub use store::{Inserted, Removed};
#[cfg(feature = "uuid")]
#[doc(no_inline)]
pub use uuid::Uuid;
pub use verdict::{Doubt, Proof, Verdict};

/// Compiles and runs the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
