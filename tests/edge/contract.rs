//! What a tower stack may expect of the layer, by hand-polling it against a mock.
//!
//! Nothing is live here: the guard has no filter, so it refuses invalid ids only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fmt::Debug;
use std::task::Poll;

use bloom_guard::extract::Extraction;
use bloom_guard::middleware::{BloomGuardService, RejectingLayer, ResponseFuture};
use bloom_guard::rejection::{NotFound, ProblemDetails, RejectReason, Rejected};
use bloom_guard::{BloomGuard, Builder, Id, InvalidId, OnInvalid, Verdict};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service, ServiceExt};
use tower_test::mock::{self, Mock};

type Inner = Mock<Request<()>, Response<String>>;

/// The id is the last segment of the path; none is unguarded, and `!` is invalid.
fn last_segment(parts: &Parts) -> Extraction {
    match parts.uri.path().rsplit('/').next() {
        None | Some("") => Extraction::Unguarded,
        Some("!") => Extraction::Invalid(InvalidId::Malformed),
        Some(text) => Id::new(text).map_or_else(Extraction::Invalid, Extraction::Id),
    }
}

fn builder() -> Builder {
    BloomGuard::builder("users", last_segment).in_process()
}

fn request(method: Method, path: &str) -> Request<()> {
    Request::builder().method(method).uri(path).body(()).unwrap()
}

#[test]
fn futures_are_send_and_handles_are_sync() {
    fn is_send<T: Send>() {}
    fn is_shareable<T: Send + Sync + Clone + Debug + 'static>() {}
    is_shareable::<BloomGuard>();
    is_shareable::<RejectingLayer<ProblemDetails>>();
    is_shareable::<BloomGuardService<axum::routing::Route, NotFound>>();
    is_send::<ResponseFuture<<Inner as Service<Request<()>>>::Future, Inner, NotFound, (), String>>(
    );

    fn must_be_send(_: impl Send) {}
    let guard = builder().build().unwrap();
    must_be_send(guard.check("1"));
    must_be_send(guard.insert(&1));
    must_be_send(guard.insert_many([1, 2]));
    must_be_send(guard.remove("1"));
}

#[tokio::test]
async fn it_is_ready_when_the_service_within_is() {
    let (mut service, mut handle) =
        mock::spawn_layer::<Request<()>, Response<String>, _>(builder().build().unwrap());
    handle.allow(0);
    assert!(service.poll_ready::<Request<()>>().is_pending());
    handle.allow(1);
    assert!(service.is_woken());
    assert!(service.poll_ready::<Request<()>>().is_ready());
}

#[tokio::test]
async fn a_service_within_that_is_broken_says_so_itself() {
    let (mut service, mut handle) =
        mock::spawn_layer::<Request<()>, Response<String>, _>(builder().build().unwrap());
    handle.send_error("out of order");
    let Poll::Ready(Err(error)) = service.poll_ready::<Request<()>>() else { panic!("must fail") };
    assert!(error.to_string().contains("out of order"));
}

#[tokio::test]
async fn the_error_of_the_service_within_is_untouched() {
    #[derive(Debug, PartialEq)]
    struct Broken(u32);
    let inner = tower::service_fn(|_: Request<()>| async { Err::<Response<String>, _>(Broken(7)) });
    let service = builder().build().unwrap().layer(inner);
    let error = service.oneshot(request(Method::GET, "/users/1")).await.unwrap_err();
    assert_eq!(error, Broken(7));
}

#[tokio::test]
async fn requests_that_are_not_guarded_pass_as_they_came() {
    let guard = builder().build().unwrap();
    let (mut service, mut handle) =
        mock::spawn_layer::<Request<()>, Response<String>, _>(guard.clone());
    let create = request(Method::POST, "/users/!");
    let preflight = request(Method::OPTIONS, "/users/!");
    let listing = request(Method::GET, "/users/");
    for request in [create, preflight, listing] {
        handle.allow(1);
        assert!(service.poll_ready::<Request<()>>().is_ready());
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let future = service.call(request);
        let (seen, respond) = handle.next_request().await.unwrap();
        assert_eq!((seen.method(), seen.uri()), (&method, &uri));
        respond.send_response(Response::new("handled".into()));
        assert_eq!(future.await.unwrap().body(), "handled");
    }
    let stats = guard.stats();
    assert_eq!((stats.requests, stats.unguarded, stats.unguarded_path), (3, 2, 1));
}

#[tokio::test]
async fn without_a_filter_nothing_is_refused() {
    let guard = builder().build().unwrap();
    let inner = tower::service_fn(|_: Request<()>| async {
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::NOT_FOUND;
        Ok::<_, std::convert::Infallible>(response)
    });
    for _ in 0..3 {
        let service = guard.layer(inner);
        let response = service.oneshot(request(Method::GET, "/users/1")).await.unwrap();
        assert!(response.extensions().get::<Rejected>().is_none());
    }
    assert_eq!((guard.stats().unknown, guard.stats().nulls_stored), (3, 0));
    assert!(matches!(guard.check("1").await, Ok(Verdict::Unknown(_))));
    assert!(!guard.state().is_ready());
}

#[tokio::test]
async fn an_invalid_id_is_refused_as_the_application_likes() {
    for (on_invalid, status, calls) in [
        (OnInvalid::NotFound, StatusCode::NOT_FOUND, false),
        (OnInvalid::BadRequest, StatusCode::BAD_REQUEST, false),
        (OnInvalid::Pass, StatusCode::OK, true),
    ] {
        let guard = builder().on_invalid(on_invalid).build().unwrap();
        let (mut service, mut handle) =
            mock::spawn_layer::<Request<()>, Response<String>, _>(guard.clone());
        handle.allow(1);
        assert!(service.poll_ready::<Request<()>>().is_ready());
        let future = service.call(request(Method::GET, "/users/!"));
        if calls {
            let (_, respond) = handle.next_request().await.unwrap();
            respond.send_response(Response::new("handled".into()));
        }
        let response = future.await.unwrap();
        assert_eq!(response.status(), status);
        let reason = response.extensions().get::<Rejected>().map(Rejected::reason);
        let refused = Some(RejectReason::Invalid(InvalidId::Malformed));
        assert_eq!(reason, if calls { None } else { refused });
        assert_eq!(guard.stats().invalid, 1);
    }
}
