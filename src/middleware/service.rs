//! The service that stands in front of the guarded one.

use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::future::{ResponseFuture, Waiting};
use super::layer::{BloomGuard, RejectingLayer};
use super::request::Next;
use crate::rejection::{NotFound, Rejection, reject};

/// Answers requests for ids that are proven absent, and passes all others to the service within.
///
/// Made by [`BloomGuard`](crate::BloomGuard) as a [`Layer`](tower_layer::Layer). Response and error types
/// are those of the service within. `R` makes the responses to refused requests.
#[derive(Debug)]
pub struct BloomGuardService<S, R = NotFound> {
    inner: S,
    layer: RejectingLayer<R>,
}

impl<S: Clone, R> BloomGuardService<S, R> {
    fn take_ready(&mut self) -> S {
        let fresh = self.inner.clone();
        mem::replace(&mut self.inner, fresh)
    }
}

impl<S: Clone, R> Clone for BloomGuardService<S, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for BloomGuardService<S, R>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    R: Rejection<ResBody>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, S, R, ReqBody, ResBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // Put together again only for the service within: a request is large to move.
        let (mut parts, body) = request.into_parts();
        let guard = self.layer.guard.start();
        match guard.screen(&mut parts) {
            Next::Pass(admitted) => {
                let response = self.inner.call(Request::from_parts(parts, body));
                ResponseFuture::running(response, admitted)
            }
            Next::Wait(pending, lookup) => {
                let layer = self.layer.clone();
                let inner = self.take_ready();
                let waiting = Waiting { lookup, inner, parts, body, pending, layer };
                ResponseFuture::looking_up(waiting)
            }
            Next::Reject(rejected) => {
                // Gives back what the service within had reserved: a connection that idles after a refusal must not sit on a
                // concurrency permit.
                drop(self.take_ready());
                ResponseFuture::rejected(reject(&*self.layer.rejection, rejected))
            }
        }
    }
}

impl<S> Layer<S> for BloomGuard {
    type Service = BloomGuardService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        self.rejecting_with(NotFound).layer(inner)
    }
}

impl<S, R> Layer<S> for RejectingLayer<R> {
    type Service = BloomGuardService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        BloomGuardService { inner, layer: self.clone() }
    }
}
