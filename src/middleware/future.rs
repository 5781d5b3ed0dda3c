//! The future of a guarded response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::middleware::rejection::{Rejection, reject};
use crate::middleware::visit::{Visit, Watching};
use crate::store::{Asking, BoxFuture, Lookup};

const COMPLETED: &str = "a response future was polled after it had completed";

pin_project! {
    /// The future of [`BloomGuardService`](crate::BloomGuardService).
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
        Rejected { response: Option<Response<ResBody>> },
        Asking { question: Option<Question<S, R, ReqBody>> },
        Running { #[pin] response: F, watch: Option<Watching> },
        Remembering { remembering: BoxFuture<'static, ()>, response: Option<Response<ResBody>> },
    }
}

/// A request that waits for its decision, with the service that was readied for it.
struct Question<S, R, ReqBody> {
    lookup: BoxFuture<'static, Lookup>,
    inner: S,
    request: Request<ReqBody>,
    visit: Visit,
    rejection: Arc<R>,
}

impl<F, S, R, ReqBody, ResBody> ResponseFuture<F, S, R, ReqBody, ResBody> {
    /// The request is none of the guard's business.
    pub(crate) const fn passing(response: F) -> Self {
        Self::running(response, None)
    }

    /// The request is refused.
    pub(crate) const fn rejected(response: Response<ResBody>) -> Self {
        Self { state: State::Rejected { response: Some(response) } }
    }

    /// The request waits to be decided.
    pub(crate) const fn asking(
        lookup: BoxFuture<'static, Lookup>,
        inner: S,
        request: Request<ReqBody>,
        visit: Visit,
        rejection: Arc<R>,
    ) -> Self {
        let question = Some(Question { lookup, inner, request, visit, rejection });
        Self { state: State::Asking { question } }
    }

    /// The request is with the service within.
    pub(crate) const fn running(response: F, watch: Option<Watching>) -> Self {
        Self { state: State::Running { response, watch } }
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
                StateProj::Asking { question } => {
                    let asked = question.as_mut().expect(COMPLETED);
                    let lookup = ready!(asked.lookup.as_mut().poll(cx));
                    question.take().expect(COMPLETED).settle(&lookup)
                }
                StateProj::Running { response, watch } => {
                    let mut response = match ready!(response.poll(cx)) {
                        Ok(response) => response,
                        Err(error) => {
                            // Given up, as it were.
                            drop(watch.take());
                            return Poll::Ready(Err(error));
                        }
                    };
                    match watch.take().and_then(|watch| watch.conclude(&mut response)) {
                        Some(Asking::Pending(remembering)) => {
                            State::Remembering { remembering, response: Some(response) }
                        }
                        Some(Asking::Ready(())) | None => return Poll::Ready(Ok(response)),
                    }
                }
                StateProj::Remembering { remembering, response } => {
                    ready!(remembering.as_mut().poll(cx));
                    return Poll::Ready(Ok(response.take().expect(COMPLETED)));
                }
                StateProj::Rejected { response } => {
                    return Poll::Ready(Ok(response.take().expect(COMPLETED)));
                }
            };
            self.as_mut().project().state.set(next);
        }
    }
}

impl<S, R, ReqBody> Question<S, R, ReqBody> {
    /// Calls the service within, or refuses and gives back what it had reserved.
    fn settle<ResBody>(self, lookup: &Lookup) -> State<S::Future, S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>>,
        R: Rejection<ResBody>,
    {
        let Self { lookup: _, mut inner, request, visit, rejection } = self;
        match visit.settle(lookup) {
            Ok(watch) => State::Running { response: inner.call(request), watch: Some(watch) },
            Err(rejected) => State::Rejected { response: Some(reject(&*rejection, &rejected)) },
        }
    }
}

impl<F, S, R, ReqBody, ResBody> fmt::Debug for ResponseFuture<F, S, R, ReqBody, ResBody> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Rejected { .. } => "rejected",
            State::Asking { .. } => "asking",
            State::Running { .. } => "running",
            State::Remembering { .. } => "remembering",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
