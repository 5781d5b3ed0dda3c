//! The id is a capture of axum's router.

use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Once;
use std::task::{Context, Poll, Waker};

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts as _, RawPathParams};
use http::Request;
use http::request::Parts;

use super::{Extraction, IdExtractor, typed};
use crate::id::{Id, InvalidId};

/// Takes the id out of what axum's router captured: no pattern to repeat, and no second opinion on
/// what the path says.
///
/// The guard must be a layer **of the router** that has the route (`Router::layer` or `Router::route_layer`), also of one that is
/// nested as a service. Around the router nothing has been captured yet: every request is unguarded, and a warning is logged once.
///
/// A route without the capture is unguarded. **Every route below the layer that has it is guarded by this filter**, whatever its
/// records are: below one guard for users, `/orders/{id}` would be looked up among the users, and refused. Give each kind of record
/// a capture of its own name (`{user}`, `{order}`), or add the guard to a router that has its routes only.
///
/// The id must name the record without the other captures, as for [`PathPattern::capture`](crate::PathPattern::capture). If nested
/// routers have the capture twice (`/orgs/{id}` and in it `/users/{id}`), the request is unguarded.
///
/// axum hands its captures out by way of the request's extensions, and these have to be cloned:
/// some allocations for each request. [`PathPattern`](crate::PathPattern) needs none.
#[derive(Debug)]
pub struct Captures<T = String> {
    name: Box<str>,
    unrouted: Once,
    id: PhantomData<fn() -> T>,
}

impl<T> Captures<T> {
    /// Creates an extractor for the capture of this name: `id` in `/users/{id}` or `/files/{*id}`.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), unrouted: Once::new(), id: PhantomData }
    }

    /// Returns what a request means without captures: axum's own extractors get none either.
    fn rejected(&self, rejection: &RawPathParamsRejection, path: &str) -> Extraction {
        match rejection {
            // Only the text tells which capture is broken. Where it is another route's, the request
            // is none of ours.
            RawPathParamsRejection::InvalidUtf8InPathParam(broken)
                if broken.to_string().contains(&format!("`{}`", self.name)) =>
            {
                Extraction::Invalid(InvalidId::NotText)
            }
            RawPathParamsRejection::MissingPathParams(_) if path.starts_with('/') => {
                self.unrouted.call_once(|| {
                    tracing::warn!(
                        capture = &*self.name,
                        "nothing is guarded: the guard is not a layer of axum's router"
                    );
                });
                Extraction::Unguarded
            }
            _ => Extraction::Unguarded,
        }
    }
}

impl<T> IdExtractor for Captures<T>
where
    T: FromStr + fmt::Display + 'static,
{
    fn extract(&self, parts: &Parts) -> Extraction {
        let captures = match captures(parts) {
            Poll::Ready(Ok(captures)) => captures,
            Poll::Ready(Err(rejection)) => return self.rejected(&rejection, parts.uri.path()),
            Poll::Pending => return Extraction::Unguarded,
        };
        let mut values =
            captures.iter().filter_map(|(name, value)| (name == &*self.name).then_some(value));
        match (values.next(), values.next()) {
            (Some(text), None) => typed::canonical::<T>(text).into(),
            // Of two, the handler may take either: to refuse one would refuse a record that exists.
            (None, _) | (Some(_), Some(_)) => Extraction::Unguarded,
        }
    }

    fn canonical(&self, text: &str) -> Result<Id, InvalidId> {
        typed::canonical::<T>(text)
    }
}

/// Asks axum's extractor for the captures. Its future waits for nothing, so one poll is enough.
fn captures(parts: &Parts) -> Poll<Result<RawPathParams, RawPathParamsRejection>> {
    let (mut copy, ()) = Request::new(()).into_parts();
    copy.extensions = parts.extensions.clone();
    pin!(RawPathParams::from_request_parts(&mut copy, &()))
        .poll(&mut Context::from_waker(Waker::noop()))
}
