//! A 404 is remembered for no more than was asked.

mod support;

use std::convert::Infallible;

use bloom_guard::{BloomGuard, PathPattern, Query, Schedule};
use http::{Method, Request, Response, StatusCode};
use support::model::{Table, live};
use tower::{Layer, ServiceExt};

async fn local(table: &Table) -> BloomGuard {
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .unwrap()
        .rebuild(Schedule::manual(), table.clone())
        .build();
    live(&guard).await;
    guard
}

fn ok(status: StatusCode) -> Response<String> {
    Response::builder().status(status).body(String::new()).unwrap()
}

/// A hyper-style service: `(GET, /users/..)` is served, everything else falls to `_ => 404`.
#[tokio::test]
async fn a_head_404_must_not_hide_what_get_serves() {
    let table = Table::with([7]);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        Ok::<_, Infallible>(match (request.method(), request.uri().path()) {
            (&Method::GET, "/users/7") => ok(StatusCode::OK),
            _ => ok(StatusCode::NOT_FOUND),
        })
    }));
    let send = |method: Method| {
        let request = Request::builder().method(method).uri("/users/7").body(String::new());
        service.clone().oneshot(request.unwrap())
    };
    assert_eq!(send(Method::GET).await.unwrap().status(), 200);
    assert_eq!(send(Method::HEAD).await.unwrap().status(), 404);
    assert_eq!(send(Method::GET).await.unwrap().status(), 200, "an existing record is refused");
}

/// GitHub-style privacy: who may not see a record gets 404. An anonymous request must not hide the
/// record from its owner.
#[tokio::test]
async fn an_anonymous_404_must_not_hide_the_record_from_its_owner() {
    let table = Table::with([7]);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let owner = request.headers().contains_key("authorization");
        Ok::<_, Infallible>(ok(if owner { StatusCode::OK } else { StatusCode::NOT_FOUND }))
    }));
    let owner = || {
        Request::get("/users/7").header("authorization", "Bearer x").body(String::new()).unwrap()
    };
    let anonymous = Request::get("/users/7").body(String::new()).unwrap();
    assert_eq!(service.clone().oneshot(owner()).await.unwrap().status(), 200);
    assert_eq!(service.clone().oneshot(anonymous).await.unwrap().status(), 404);
    assert_eq!(service.clone().oneshot(owner()).await.unwrap().status(), 200, "owner is refused");
}

#[tokio::test]
async fn vary_is_honoured() {
    let table = Table::with([7]);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let mine = request.headers().get("x-api-key").is_some_and(|key| key == "owner");
        let mut response = ok(if mine { StatusCode::OK } else { StatusCode::NOT_FOUND });
        response.headers_mut().insert("vary", "x-api-key".parse().unwrap());
        Ok::<_, Infallible>(response)
    }));
    let request =
        |key: &str| Request::get("/users/7").header("x-api-key", key).body(String::new()).unwrap();
    assert_eq!(service.clone().oneshot(request("other")).await.unwrap().status(), 404);
    assert_eq!(service.clone().oneshot(request("owner")).await.unwrap().status(), 200);
}

/// Whether the handler's 404 with these headers answers the next request for the same id too.
async fn remembered(headers: &'static [(&'static str, &'static str)]) -> bool {
    let guard = local(&Table::with([7])).await;
    let service = guard.layer(tower::service_fn(move |_: Request<String>| async move {
        let mut response = ok(StatusCode::NOT_FOUND);
        for (name, value) in headers {
            response.headers_mut().append(*name, value.parse().unwrap());
        }
        Ok::<_, Infallible>(response)
    }));
    for _ in 0..2 {
        let request = Request::get("/users/7").body(String::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 404);
    }
    guard.stats().absent_by_null == 1
}

#[tokio::test]
async fn a_404_that_is_over_is_not_remembered() {
    assert!(remembered(&[("expires", "Fri, 31 Dec 9999 23:59:59 GMT")]).await);
    assert!(remembered(&[("cache-control", "max-age=60"), ("age", "20")]).await);
    assert!(!remembered(&[("expires", "0")]).await);
    assert!(!remembered(&[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")]).await);
    assert!(!remembered(&[("cache-control", "max-age=60"), ("age", "60")]).await);
}

/// `Router::layer` also wraps the fallback: any path has an id under `Query`.
#[tokio::test]
async fn a_404_of_an_unmatched_route_is_no_null() {
    use axum::{Router, routing};
    let table = Table::with([7]);
    let guard = BloomGuard::builder("users", Query::<u64>::new("user"))
        .unwrap()
        .rebuild(Schedule::manual(), table.clone())
        .build();
    live(&guard).await;
    let app: Router =
        Router::new().route("/posts", routing::get(|| async { "posts" })).layer(guard.clone());
    let send = |target: &str| {
        let request = Request::get(target).body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request)
    };
    assert_eq!(send("/posts?user=7").await.unwrap().status(), 200);
    assert_eq!(send("/nowhere?user=7").await.unwrap().status(), 404);
    assert_eq!(send("/posts?user=7").await.unwrap().status(), 200, "an existing user is refused");
}

/// One layer over several routes, as `Captures` advertises.
#[cfg(feature = "axum")]
#[tokio::test]
async fn a_404_of_a_subresource_is_no_null_of_the_resource() {
    use axum::{Router, routing};
    let table = Table::with([7]);
    let guard = BloomGuard::builder("users", bloom_guard::Captures::<u64>::new("id"))
        .unwrap()
        .rebuild(Schedule::manual(), table.clone())
        .build();
    live(&guard).await;
    let app: Router = Router::new()
        .route("/users/{id}", routing::get(|| async { "user" }))
        .route("/users/{id}/avatar", routing::get(|| async { StatusCode::NOT_FOUND }))
        .layer(guard.clone());
    let send = |target: &str| {
        let request = Request::get(target).body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request)
    };
    assert_eq!(send("/users/7").await.unwrap().status(), 200);
    assert_eq!(send("/users/7/avatar").await.unwrap().status(), 404);
    assert_eq!(send("/users/7").await.unwrap().status(), 200, "an existing user is refused");
}
