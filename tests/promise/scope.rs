//! A 404 that is about something else than the record, or meant for one caller, hides the record from nobody.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::{Router, routing};
use bloom_guard::extract::{Captures, IdExtractor, Query};
use bloom_guard::{BloomGuard, PathPattern, Schedule, Verdict};
use http::{Method, Request, Response, StatusCode};
use support::model::{Strangers, Table, in_process, live};
use tower::{Layer, ServiceExt};

fn status(status: StatusCode) -> Response<String> {
    Response::builder().status(status).body(String::new()).unwrap()
}

/// One layer over several routes also wraps the fallback, and the routes of what a record has.
#[tokio::test]
async fn a_404_of_another_route_is_no_null_of_the_record() {
    async fn tries(extractor: impl IdExtractor, record: &str, other: &str) {
        let guard = BloomGuard::builder("users", extractor)
            .in_process()
            .rebuild(Schedule::manual(), Table::with([7]))
            .build()
            .unwrap();
        live(&guard).await;
        let app: Router = Router::new()
            .route("/posts", routing::get(|| async { "posts" }))
            .route("/users/{id}", routing::get(|| async { "user" }))
            .route("/users/{id}/avatar", routing::get(|| async { StatusCode::NOT_FOUND }))
            .layer(guard.clone());
        for (target, expected) in [(record, 200), (other, 404), (record, 200)] {
            let request = Request::get(target).body(Body::empty()).unwrap();
            assert_eq!(app.clone().oneshot(request).await.unwrap().status(), expected, "{target}");
        }
    }
    tries(Query::<u64>::new("user"), "/posts?user=7", "/nowhere?user=7").await;
    tries(Captures::<u64>::new("id"), "/users/7", "/users/7/avatar").await;
}

/// A private record, which only its owner is shown; a job asks on behalf of the owner.
#[tokio::test]
async fn what_one_caller_was_told_is_no_proof_to_who_checks_by_hand() {
    let guard = in_process(&Table::with([7, 8]), 1_000, 1e-6).build().unwrap();
    guard.ready().await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let public = request.uri().path().ends_with('8') && request.method() == Method::GET;
        Ok::<_, Infallible>(status(if public { StatusCode::OK } else { StatusCode::NOT_FOUND }))
    }));
    for (method, id) in [(Method::GET, 7), (Method::HEAD, 8)] {
        let request = Request::builder().method(method).uri(format!("/users/{id}"));
        let request = request.body(String::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 404);
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "record {id} exists");
    }
    assert_eq!(guard.stats().nulls_stored, 1, "that of the GET");
}

/// Idempotent, as deletions should be.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_succeeds_shows_no_record() {
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .methods([Method::GET, Method::HEAD, Method::DELETE])
        .rebuild(Schedule::manual(), Table::with(0..1_000))
        .build()
        .unwrap();
    live(&guard).await;
    let service = guard.layer(tower::service_fn(|_: Request<String>| async {
        Ok::<_, Infallible>(status(StatusCode::NO_CONTENT))
    }));
    for id in Strangers(7).take(100) {
        let request = Request::delete(format!("/users/{id}")).body(String::new()).unwrap();
        service.clone().oneshot(request).await.unwrap();
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let stats = guard.stats();
    assert!(stats.refused >= 90, "but for a sample: {stats:?}");
    assert_eq!((stats.admitted_found, stats.false_negatives), (0, 0));
    assert!(guard.state().is_ready());
}
