//! The tower contract where there is something to refuse or to wait for.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use http::{Method, Request, Response, StatusCode};
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use super::{get, id, ids, memory_store, rebuild, settings};
use crate::middleware::layer::BloomGuard;
use crate::nulls::rules::NegativeCaching;
use crate::rejection::{RejectReason, Rejected};
use crate::settings::Settings;
use crate::store::Store;
use crate::store::tests::Gated;
use crate::verdict::{Proof, Verdict};

fn guard(store: Store, nulls: NegativeCaching) -> BloomGuard {
    BloomGuard::new(super::guard(store, &Settings { nulls, ..settings() }))
}

/// The rules for an extractor whose 404s are the record's.
fn unmarked() -> NegativeCaching {
    NegativeCaching::new().require_marker(false)
}

/// A guard whose filter holds 0 to 9, and which answers at once.
async fn prompt(nulls: NegativeCaching) -> BloomGuard {
    let store = memory_store(&settings());
    rebuild(&store, &ids(0..10)).await;
    guard(Store::Memory(store), nulls)
}

/// The same, but each answer waits for its gate.
async fn gated() -> (BloomGuard, Gated) {
    let store = Gated::new(memory_store(&settings()));
    rebuild(&store, &ids(0..10)).await;
    (guard(Store::Gated(store.clone()), unmarked()), store)
}

/// A handler that counts its calls, insists on having been polled ready, and answers the status.
#[derive(Debug)]
struct Handler {
    calls: Arc<AtomicU32>,
    status: StatusCode,
    ready: bool,
}

impl Handler {
    fn new(status: StatusCode) -> (Self, Arc<AtomicU32>) {
        let calls = Arc::new(AtomicU32::new(0));
        (Self { calls: calls.clone(), status, ready: false }, calls)
    }
}

impl Clone for Handler {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), status: self.status, ready: false }
    }
}

impl Service<Request<()>> for Handler {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new("handled".to_owned());
        *response.status_mut() = self.status;
        ready(Ok(response))
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

async fn send<S>(service: &mut S, request: Request<()>) -> Response<String>
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible>,
{
    service.ready().await.unwrap().call(request).await.unwrap()
}

#[tokio::test]
async fn an_absent_id_never_reaches_the_handler() {
    let (handler, calls) = Handler::new(StatusCode::OK);
    let mut service = prompt(unmarked()).await.layer(handler);
    assert_eq!(send(&mut service, get(3)).await.body(), "handled");

    let response = send(&mut service, get(33)).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let rejected = response.extensions().get::<Rejected>().unwrap();
    assert_eq!(rejected.reason(), RejectReason::Absent(Proof::Filter));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_404_is_remembered_before_it_is_handed_on() {
    let (handler, calls) = Handler::new(StatusCode::NOT_FOUND);
    let guard = prompt(unmarked()).await;
    let mut service = guard.layer(handler);
    assert_eq!(send(&mut service, get(3)).await.body(), "handled");
    for _ in 0..3 {
        let response = send(&mut service, get(3)).await;
        let rejected = response.extensions().get::<Rejected>().unwrap();
        assert_eq!(rejected.reason(), RejectReason::Absent(Proof::Null));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let stats = guard.stats();
    assert_eq!((stats.requests, stats.nulls_stored, stats.absent_by_null), (4, 1, 3));
}

#[tokio::test]
async fn head_profits_from_what_get_found_out() {
    let (handler, calls) = Handler::new(StatusCode::NOT_FOUND);
    let mut service = prompt(unmarked()).await.layer(handler);
    send(&mut service, get(3)).await;
    let mut head = get(3);
    *head.method_mut() = Method::HEAD;
    assert!(send(&mut service, head).await.extensions().get::<Rejected>().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn one_callers_404_stays_between_the_two() {
    for (shared, calls_expected) in [(false, 2), (true, 1)] {
        let nulls = NegativeCaching::new().shared_absence(shared).require_marker(false);
        let (handler, calls) = Handler::new(StatusCode::NOT_FOUND);
        let mut service = prompt(nulls).await.layer(handler);
        for _ in 0..2 {
            let mut request = get(3);
            request.headers_mut().insert("authorization", "Bearer x".parse().unwrap());
            send(&mut service, request).await;
        }
        assert_eq!(calls.load(Ordering::Relaxed), calls_expected);
    }
}

/// The store is gated and lets nobody through.
#[tokio::test]
async fn a_record_found_lately_is_served_without_a_look_up() {
    let (guard, store) = gated().await;
    let (handler, calls) = Handler::new(StatusCode::OK);
    let mut service = guard.layer(handler);
    store.checks.add_permits(1);
    for _ in 0..3 {
        assert_eq!(send(&mut service, get(3)).await.body(), "handled");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!((guard.stats().present, guard.stats().admitted_found), (1, 2));
}

/// A backend that answers one wrong 404 to what was just found.
#[tokio::test]
async fn a_404_to_a_record_found_lately_refuses_nobody() {
    let (guard, store) = gated().await;
    store.checks.add_permits(2);
    let mut finds = guard.layer(Handler::new(StatusCode::OK).0);
    send(&mut finds, get(3)).await;
    send(&mut guard.layer(Handler::new(StatusCode::NOT_FOUND).0), get(3)).await;
    assert_eq!(guard.stats().nulls_stored, 0, "no null is on its way either");
    assert_eq!(send(&mut finds, get(3)).await.body(), "handled");
}

#[tokio::test(start_paused = true)]
async fn the_handle_and_the_layer_share_one_state() {
    let (handler, calls) = Handler::new(StatusCode::OK);
    let guard = prompt(unmarked()).await;
    tokio::time::advance(settings().record_life()).await;
    let mut service = guard.layer(handler);
    assert_eq!(guard.check(&33).await.unwrap(), Verdict::Absent(Proof::Filter));
    guard.insert_many([33, 34]).await.unwrap();
    assert_eq!(guard.check(&33).await.unwrap(), Verdict::Present);
    assert_eq!(send(&mut service, get(34)).await.body(), "handled");
    assert_eq!(calls.load(Ordering::Relaxed), 1);

    guard.remove(&3).await.unwrap();
    assert_eq!(send(&mut service, get(3)).await.status(), StatusCode::NOT_FOUND);
    assert_eq!((guard.stats().inserts, guard.stats().removals), (2, 1));
    assert_eq!(guard.state().live.unwrap().items, 10);
}

#[tokio::test]
async fn the_service_that_was_readied_is_the_one_called_after_waiting() {
    let (guard, store) = gated().await;
    let (handler, calls) = Handler::new(StatusCode::OK);
    let mut service = guard.layer(handler);
    let mut first = service.ready().await.unwrap().call(get(3));
    assert!(poll(&mut first).is_pending());
    let mut second = service.ready().await.unwrap().call(get(4));
    store.checks.add_permits(2);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert!(matches!(poll(&mut second), Poll::Ready(Ok(response)) if response.body() == "handled"));
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(response)) if response.body() == "handled"));
}

#[tokio::test]
async fn a_refusal_after_waiting_never_reaches_the_handler() {
    let (guard, store) = gated().await;
    let (handler, calls) = Handler::new(StatusCode::OK);
    let mut service = guard.layer(handler);
    store.checks.add_permits(1);
    let response = send(&mut service, get(33)).await;
    assert!(response.extensions().get::<Rejected>().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_404_waits_until_the_store_has_it() {
    let (guard, store) = gated().await;
    let (handler, calls) = Handler::new(StatusCode::NOT_FOUND);
    let mut service = guard.layer(handler);
    store.checks.add_permits(2);
    let mut future = service.ready().await.unwrap().call(get(3));
    assert!(poll(&mut future).is_pending());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    store.nulls.add_permits(1);
    assert_eq!(future.await.unwrap().body(), "handled");
    assert!(send(&mut service, get(3)).await.extensions().get::<Rejected>().is_some());
}

#[tokio::test]
async fn a_null_that_is_cut_off_is_not_stored() {
    let (guard, store) = gated().await;
    let (handler, calls) = Handler::new(StatusCode::NOT_FOUND);
    let mut service = guard.layer(handler);
    store.checks.add_permits(2);
    let mut future = service.ready().await.unwrap().call(get(3));
    assert!(poll(&mut future).is_pending());
    drop(future);
    store.nulls.add_permits(2);
    assert_eq!(send(&mut service, get(3)).await.body(), "handled");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn no_permit_is_kept_by_a_request_that_was_refused_or_dropped() {
    let (guard, store) = gated().await;
    let (handler, _) = Handler::new(StatusCode::OK);
    let limited = ConcurrencyLimit::new(handler, 1);
    let mut other = limited.clone();
    let mut service = guard.layer(limited);

    // While it waits for its decision the permit is its own ...
    let mut dropped = service.ready().await.unwrap().call(get(3));
    assert!(poll(&mut dropped).is_pending());
    assert!(poll(&mut other.ready()).is_pending());
    // ... and when it is dropped the permit is everybody's.
    drop(dropped);
    assert!(poll(&mut other.ready()).is_ready());
    other = other.clone(); // and without it again

    store.checks.add_permits(1);
    assert_eq!(send(&mut service, get(33)).await.status(), StatusCode::NOT_FOUND);
    assert!(poll(&mut other.ready()).is_ready());
}

#[tokio::test]
async fn a_refusal_without_waiting_gives_the_permit_back_at_once() {
    let (handler, _) = Handler::new(StatusCode::OK);
    let limited = ConcurrencyLimit::new(handler, 1);
    let mut other = limited.clone();
    let mut service = prompt(unmarked()).await.layer(limited);
    for path in ["/users/33", "/users/!"] {
        let request = Request::get(path).body(()).unwrap();
        assert_eq!(send(&mut service, request).await.status(), StatusCode::NOT_FOUND);
        assert!(poll(&mut other.ready()).is_ready(), "{path}");
        other = other.clone();
    }
}

#[tokio::test]
async fn a_limit_around_the_guard_counts_those_who_wait() {
    let (guard, store) = gated().await;
    let (handler, _) = Handler::new(StatusCode::OK);
    let mut service = ConcurrencyLimit::new(guard.layer(handler), 1);
    let mut other = service.clone();
    let mut waiting = service.ready().await.unwrap().call(get(3));
    assert!(poll(&mut waiting).is_pending());
    assert!(poll(&mut other.ready()).is_pending());
    store.checks.add_permits(1);
    assert!(poll(&mut waiting).is_ready());
    drop(waiting);
    assert!(poll(&mut other.ready()).is_ready());
}

#[tokio::test]
async fn a_future_wakes_its_task_when_the_store_answers() {
    let (guard, store) = gated().await;
    let (handler, calls) = Handler::new(StatusCode::OK);
    let mut service = guard.layer(handler);
    let future = service.ready().await.unwrap().call(get(3));
    let task = tokio::spawn(future);
    tokio::task::yield_now().await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    store.checks.add_permits(1);
    assert_eq!(task.await.unwrap().unwrap().body(), "handled");
}

#[tokio::test]
async fn a_transaction_that_commits_in_time_is_served() {
    let (handler, _) = Handler::new(StatusCode::OK);
    let guard = prompt(unmarked()).await;
    let mut service = guard.layer(handler);
    guard.insert(&77).await.unwrap(); // before the commit
    assert_eq!(send(&mut service, get(77)).await.body(), "handled");
    let canonical = id(77);
    assert_eq!(guard.check(&canonical).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn every_refusal_is_counted_and_nothing_else_as_one() {
    let guard = prompt(unmarked()).await;
    let service = guard.layer(Handler::new(StatusCode::OK).0);
    for n in 5..12 {
        service.clone().oneshot(get(n)).await.unwrap();
    }
    let invalid = Request::get("/users/!").body(()).unwrap();
    service.oneshot(invalid).await.unwrap();
    guard.check(&11_u64).await.unwrap();
    let stats = guard.stats();
    assert_eq!((stats.refused, stats.invalid), (2, 1));
    assert_eq!(stats.absent_by_filter, 3, "one of them only asked");
}
