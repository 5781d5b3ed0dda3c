//! The future of a guarded response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower_service::Service;

use super::layer::RejectingLayer;
use super::request::{Admitted, Pending};
use crate::rejection::{Rejection, reject};
use crate::store::{Answer, BoxFuture, Lookups};

const COMPLETED: &str = "a response future was polled after it had completed";

pin_project! {
    /// The future of [`BloomGuardService`](crate::middleware::BloomGuardService).
    ///
    /// `F` is the future of the service within, `S`. Dropping it at any point is safe.
    pub struct ResponseFuture<F, S, R, ReqBody, ResBody> {
        #[pin]
        state: State<F, S, R, ReqBody, ResBody>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, S, R, ReqBody, ResBody> {
        // Boxed: futures of requests that do not wait stay small to move.
        LookingUp { waiting: Option<Box<Waiting<S, R, ReqBody>>> },
        Running { #[pin] response: F, admitted: Option<Admitted> },
        // The response is handed on when what it taught is remembered.
        Answered { remembering: Option<BoxFuture<'static, ()>>, response: Option<Response<ResBody>> },
    }
}

/// A request that waits for its decision, with the service that was readied for it.
pub(super) struct Waiting<S, R, ReqBody> {
    pub(super) lookup: BoxFuture<'static, Lookups>,
    pub(super) inner: S,
    pub(super) parts: Parts,
    pub(super) body: ReqBody,
    pub(super) pending: Pending,
    pub(super) layer: RejectingLayer<R>,
}

impl<F, S, R, ReqBody, ResBody> ResponseFuture<F, S, R, ReqBody, ResBody> {
    pub(super) const fn running(response: F, admitted: Option<Admitted>) -> Self {
        Self { state: State::Running { response, admitted } }
    }

    pub(super) const fn rejected(response: Response<ResBody>) -> Self {
        Self { state: State::Answered { remembering: None, response: Some(response) } }
    }

    pub(super) fn looking_up(waiting: Waiting<S, R, ReqBody>) -> Self {
        Self { state: State::LookingUp { waiting: Some(Box::new(waiting)) } }
    }
}

impl<F, S, R, ReqBody, ResBody> Future for ResponseFuture<F, S, R, ReqBody, ResBody>
where
    F: Future<Output = Result<Response<ResBody>, S::Error>>,
    S: Service<Request<ReqBody>, Response = Response<ResBody>, Future = F>,
    R: Rejection<ResBody>,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProj::LookingUp { waiting } => {
                    let lookup = &mut waiting.as_mut().expect(COMPLETED).lookup;
                    let lookups = ready!(lookup.as_mut().poll(cx));
                    let waiting = waiting.take().expect(COMPLETED);
                    let Waiting { mut inner, mut parts, body, pending, layer, .. } = *waiting;
                    let guard = &layer.guard.guard;
                    match pending.decide(guard, &mut parts, &lookups, Instant::now()) {
                        Ok(admitted) => {
                            let response = inner.call(Request::from_parts(parts, body));
                            State::Running { response, admitted: Some(admitted) }
                        }
                        Err(rejected) => {
                            let response = Some(reject(&*layer.rejection, rejected));
                            State::Answered { remembering: None, response }
                        }
                    }
                }
                StateProj::Running { response, admitted } => {
                    let answer = ready!(response.poll(cx));
                    let learning = match (&answer, admitted.take()) {
                        (Ok(response), Some(request)) => request.conclude(response),
                        // Where the service failed, the request is dropped as not answered.
                        _ => None,
                    };
                    match learning {
                        Some(Answer::Pending(remembering)) => State::Answered {
                            remembering: Some(remembering),
                            response: Some(answer?),
                        },
                        Some(Answer::Ready(())) | None => return Poll::Ready(answer),
                    }
                }
                StateProj::Answered { remembering, response } => {
                    if let Some(remembering) = remembering {
                        ready!(remembering.as_mut().poll(cx));
                    }
                    return Poll::Ready(Ok(response.take().expect(COMPLETED)));
                }
            };
            self.as_mut().project().state.set(next);
        }
    }
}

impl<F, S, R, ReqBody, ResBody> fmt::Debug for ResponseFuture<F, S, R, ReqBody, ResBody> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
