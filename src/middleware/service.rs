//! The service that stands in front of the guarded one.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::middleware::future::ResponseFuture;
use crate::middleware::layer::BloomGuard;
use crate::middleware::rejection::{Rejected, Rejection, reject};
use crate::middleware::shared::Screened;
use crate::middleware::visit::{Visit, Watching};
use crate::store::Asking;

/// Answers requests for ids that are proven absent, and passes all others to the service within.
///
/// Made by [`BloomGuard`] as a [`Layer`](tower_layer::Layer). Response and error types are those of the
/// service within.
#[derive(Debug)]
pub struct BloomGuardService<S, R> {
    inner: S,
    guard: BloomGuard<R>,
}

impl<S, R> BloomGuardService<S, R> {
    pub(crate) const fn new(inner: S, guard: BloomGuard<R>) -> Self {
        Self { inner, guard }
    }

    /// Returns the service within.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the service within, to change it.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Unwraps the service within.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Clone, R> BloomGuardService<S, R> {
    /// Takes the service that was polled ready and leaves a fresh one in its place.
    fn take_ready(&mut self) -> S {
        let fresh = self.inner.clone();
        mem::replace(&mut self.inner, fresh)
    }

    /// Refuses a request, and gives back what the service within had reserved for it: a connection
    /// that idles after a refusal must not sit on a concurrency permit.
    fn refuse<F, ReqBody, ResBody>(
        &mut self,
        rejected: &Rejected,
    ) -> ResponseFuture<F, S, R, ReqBody, ResBody>
    where
        R: Rejection<ResBody>,
    {
        drop(self.take_ready());
        ResponseFuture::rejected(reject(&**self.guard.rejection(), rejected))
    }
}

impl<S: Clone, R> Clone for BloomGuardService<S, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), guard: self.guard.clone() }
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
        let edge = Arc::clone(self.guard.edge());
        edge.start();
        let (parts, body) = request.into_parts();
        let id = match edge.screen(&parts) {
            Screened::About(id) => id,
            Screened::Reject(rejected) => return self.refuse(&rejected),
            Screened::Look(look) => {
                let response = self.inner.call(Request::from_parts(parts, body));
                return ResponseFuture::running(response, Some(Watching::Invalid(look)));
            }
            Screened::Pass => {
                return ResponseFuture::passing(self.inner.call(Request::from_parts(parts, body)));
            }
        };
        let question = edge.core.check(&id);
        let visit = Visit::new(edge, id, &parts);
        let request = Request::from_parts(parts, body);
        match question {
            Asking::Ready(lookup) => match visit.settle(&lookup) {
                Ok(watch) => ResponseFuture::running(self.inner.call(request), Some(watch)),
                Err(rejected) => self.refuse(&rejected),
            },
            Asking::Pending(question) => {
                let rejection = Arc::clone(self.guard.rejection());
                ResponseFuture::asking(question, self.take_ready(), request, visit, rejection)
            }
        }
    }
}
