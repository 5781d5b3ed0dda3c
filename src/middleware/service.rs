//! The service that stands in front of the guarded one.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::time::Instant;
use tower_service::Service;

use super::future::{ResponseFuture, Waiting};
use super::list::PendingList;
use super::rejection::{NotFound, Rejected, Rejection, reject};
use super::request::{Pending, PendingRequest};
use super::shared::{Screened, Shared};
use super::watch::Watch;
use crate::store::Answer;

/// Answers requests for ids that are proven absent, and passes all others to the service within.
///
/// Made by [`BloomGuard`](crate::BloomGuard) as a [`Layer`](tower_layer::Layer). Response and error types
/// are those of the service within. `R` makes the responses to refused requests.
#[derive(Debug)]
pub struct BloomGuardService<S, R = NotFound> {
    inner: S,
    shared: Arc<Shared>,
    rejection: Arc<R>,
}

impl<S, R> BloomGuardService<S, R> {
    pub(super) const fn new(inner: S, shared: Arc<Shared>, rejection: Arc<R>) -> Self {
        Self { inner, shared, rejection }
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

    /// Decides on a request by what is known, now or when it is there.
    fn decide<P, ReqBody, ResBody, W>(
        &mut self,
        pending: P,
        known: Answer<P::Known>,
        mut request: Request<ReqBody>,
        now: Instant,
        wait: W,
    ) -> ResponseFuture<S::Future, S, R, ReqBody, ResBody>
    where
        P: Pending<Admitted: Into<Watch>>,
        W: FnOnce(Waiting<P, S, R, ReqBody>) -> ResponseFuture<S::Future, S, R, ReqBody, ResBody>,
        S: Service<Request<ReqBody>, Response = Response<ResBody>>,
        R: Rejection<ResBody>,
    {
        match known {
            Answer::Ready(known) => match pending.decide(&self.shared, &mut request, &known, now) {
                Ok(admitted) => {
                    ResponseFuture::running(self.inner.call(request), Some(admitted.into()))
                }
                Err(rejected) => self.refuse(rejected),
            },
            Answer::Pending(lookup) => wait(Waiting {
                lookup,
                inner: self.take_ready(),
                request,
                pending,
                shared: Arc::clone(&self.shared),
                rejection: Arc::clone(&self.rejection),
            }),
        }
    }

    /// Refuses a request, and gives back what the service within had reserved for it: a connection
    /// that idles after a refusal must not sit on a concurrency permit.
    fn refuse<F, ReqBody, ResBody>(
        &mut self,
        rejected: Rejected,
    ) -> ResponseFuture<F, S, R, ReqBody, ResBody>
    where
        R: Rejection<ResBody>,
    {
        drop(self.take_ready());
        ResponseFuture::rejected(reject(&*self.rejection, rejected))
    }
}

impl<S: Clone, R> Clone for BloomGuardService<S, R> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: Arc::clone(&self.shared),
            rejection: Arc::clone(&self.rejection),
        }
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
        self.shared.start();
        let (parts, body) = request.into_parts();
        let screened = self.shared.screen(&parts);
        let request = Request::from_parts(parts, body);
        let id = match screened {
            Screened::About(id) => id,
            Screened::List(ids) => {
                let now = Instant::now();
                let pending = PendingList::new(ids, &self.shared.guard, now);
                let known = pending.check(&self.shared.guard, now);
                return self.decide(pending, known, request, now, ResponseFuture::looking_up_list);
            }
            Screened::Reject(rejected) => return self.refuse(rejected),
            Screened::Sample(sample) => {
                let response = self.inner.call(request);
                return ResponseFuture::running(response, Some(Watch::Invalid(sample)));
            }
            Screened::Pass => return ResponseFuture::running(self.inner.call(request), None),
        };
        let guard = &self.shared.guard;
        let (hash, now) = (guard.gate().hash(&id), Instant::now());
        let pending = PendingRequest { id, hash };
        if guard.is_found(hash, now) {
            let admitted = pending.admit_found(&self.shared, &request);
            return ResponseFuture::running(self.inner.call(request), Some(admitted.into()));
        }
        let known = guard.check(&pending.id, now);
        self.decide(pending, known, request, now, ResponseFuture::looking_up)
    }
}
