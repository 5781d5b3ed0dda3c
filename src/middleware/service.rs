//! The service that stands in front of the guarded one.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use tokio::time::Instant;
use tower_service::Service;

use super::future::{ResponseFuture, Waiting};
use super::list::PendingList;
use super::rejection::{NotFound, Rejected, Rejection, reject};
use super::request::{Pending, PendingRequest};
use super::screen::Screened;
use super::shared::Shared;
use super::watch::Watch;
use crate::extract::IdList;
use crate::guard::FirstRow;
use crate::store::{Answer, BoxFuture};

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

    /// Has a request wait until it is known what it asks for.
    fn wait<P: Pending, ReqBody>(
        &mut self,
        lookup: BoxFuture<'static, P::Known>,
        pending: P,
        parts: Parts,
        body: ReqBody,
    ) -> Waiting<P, S, R, ReqBody> {
        let (shared, rejection) = (Arc::clone(&self.shared), Arc::clone(&self.rejection));
        Waiting { lookup, inner: self.take_ready(), parts, body, pending, shared, rejection }
    }

    /// Decides on a request that lists ids, now or when it is known what it asks for.
    fn call_with_list<ReqBody, ResBody>(
        &mut self,
        ids: IdList,
        mut parts: Parts,
        body: ReqBody,
    ) -> ResponseFuture<S::Future, S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>>,
        R: Rejection<ResBody>,
    {
        let (guard, now) = (&self.shared.guard, Instant::now());
        let pending = PendingList::new(ids, guard, now);
        match pending.check(guard) {
            Answer::Ready(known) => {
                let decided = pending.decide(&self.shared, &mut parts, &known, now);
                self.follow(decided.map(|admitted| Some(admitted.into())), parts, body)
            }
            Answer::Pending(lookup) => {
                ResponseFuture::looking_up_list(self.wait(lookup, pending, parts, body))
            }
        }
    }

    /// Passes a request to the service within.
    fn admit<ReqBody, ResBody>(
        &mut self,
        watch: Option<Watch>,
        parts: Parts,
        body: ReqBody,
    ) -> ResponseFuture<S::Future, S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    {
        ResponseFuture::running(self.inner.call(Request::from_parts(parts, body)), watch)
    }

    /// Passes a request to the service within, or refuses it.
    fn follow<ReqBody, ResBody>(
        &mut self,
        decided: Result<Option<Watch>, Rejected>,
        parts: Parts,
        body: ReqBody,
    ) -> ResponseFuture<S::Future, S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>>,
        R: Rejection<ResBody>,
    {
        match decided {
            Ok(watch) => self.admit(watch, parts, body),
            Err(rejected) => self.refuse(rejected),
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
        let explains = self.shared.options.explains;
        ResponseFuture::rejected(reject(&*self.rejection, rejected, explains))
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
        // Put together again only for the service within: a request is large to move.
        let (mut parts, body) = request.into_parts();
        let (shared, guard) = (&self.shared, &self.shared.guard);
        let decided = match shared.screen(&parts) {
            Screened::About(id) => {
                let (hash, now) = (guard.gate.hash(&id), Instant::now());
                let is_copied = match guard.first_row(&id, hash, now) {
                    FirstRow::Passes(why) => {
                        guard.passes_unasked(why, now);
                        let pending = PendingRequest { id, hash, asked: now, is_copied: true };
                        let watch = pending.pass(why, shared, &parts).into();
                        return self.admit(Some(watch), parts, body);
                    }
                    FirstRow::Asks { is_copied } => is_copied,
                };
                let pending = PendingRequest { id, hash, asked: now, is_copied };
                match guard.store.check(&pending.id, now, true) {
                    Answer::Ready(known) => {
                        let decided = pending.decide(shared, &mut parts, &known, now);
                        decided.map(|admitted| Some(admitted.into()))
                    }
                    Answer::Pending(lookup) => {
                        let waiting = self.wait(lookup, pending, parts, body);
                        return ResponseFuture::looking_up(waiting);
                    }
                }
            }
            Screened::List(ids) => return self.call_with_list(ids, parts, body),
            Screened::Reject(rejected) => Err(rejected),
            Screened::Sample(sample) => Ok(Some(Watch::Invalid(sample))),
            Screened::Pass => Ok(None),
        };
        self.follow(decided, parts, body)
    }
}
