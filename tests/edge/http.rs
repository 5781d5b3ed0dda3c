//! The whole way: requests over sockets to an axum server with the guard in front of its handlers.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::get;
use bloom_guard::rejection::{Explained, NotFound, ProblemDetails, Rejected, Rejection};
use bloom_guard::{BloomGuard, OnUnknown, PathPattern};
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use support::http::HttpServer;
use support::model::{Table, in_process};

const IDS: u64 = 1_000;
const HERE: &str = "/users/7";
const ABSENT: &str = "/users/70000";
const MALFORMED: &str = "/users/seven";

async fn show(State(table): State<Table>, Path(id): Path<u64>) -> Result<String, StatusCode> {
    if table.look_up(id) { Ok(format!("user {id}")) } else { Err(StatusCode::NOT_FOUND) }
}

/// Serves a guard over users 0 to 999, its filter in this process and all but free of false positives.
async fn served() -> (Table, BloomGuard, HttpServer) {
    let table = Table::with(0..IDS);
    let guard = in_process(&table, 10_000, 1e-9).build().unwrap();
    guard.ready().await;
    let app = Router::new()
        .route("/users/{id}", get(show).post(|_: Path<u64>| async {}))
        .layer(guard.clone())
        .with_state(table.clone());
    let server = HttpServer::start(app).await;
    (table, guard, server)
}

#[track_caller]
fn assert_refused(response: &Response<Bytes>, status: StatusCode) {
    assert_eq!(response.status(), status);
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    assert_eq!(response.body(), "");
}

#[tokio::test]
async fn what_exists_is_served_and_what_was_never_created_is_refused() {
    let (table, guard, server) = served().await;
    // `HttpClient` never reconnects, so every answer came over the one connection.
    let mut client = server.connect().await;
    for _ in 0..100 {
        let response = client.get(HERE).await;
        assert_eq!((response.status(), &response.body()[..]), (StatusCode::OK, &b"user 7"[..]));
        let response = client.send(Method::HEAD, HERE).await;
        assert_eq!((response.status(), response.body().len()), (StatusCode::OK, 0));
        for method in [Method::GET, Method::HEAD] {
            assert_refused(&client.send(method, ABSENT).await, StatusCode::NOT_FOUND);
        }
        assert_refused(&client.get(MALFORMED).await, StatusCode::NOT_FOUND);
    }
    assert_eq!((table.lookups(), guard.stats().requests), (200, 500));
    // Other methods reach the application: these are the router's own answers.
    let deleted = client.send(Method::DELETE, "/users/80000").await;
    assert_eq!(deleted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(client.send(Method::POST, MALFORMED).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(guard.stats().unguarded, 2);
}

/// Sends a HEAD and a GET that are refused, and returns what they are answered, but for the time.
async fn refused(guard: &BloomGuard, by: impl Rejection<Body> + Send + Sync + 'static) -> String {
    let app = Router::new().route("/users/{id}", get(|| async {}));
    let server = HttpServer::start(app.layer(guard.rejecting_with(by))).await;
    let mut client = server.connect().await;
    let mut heads: Vec<(StatusCode, HeaderMap)> = Vec::new();
    for path in [ABSENT, MALFORMED] {
        for method in [Method::GET, Method::HEAD] {
            let is_head = method == Method::HEAD;
            let mut response = client.send(method, path).await;
            assert!(response.body().is_empty() || !is_head);
            response.headers_mut().remove(header::DATE);
            heads.push((response.status(), response.headers().clone()));
        }
    }
    assert_eq!((&heads[0], &heads[2]), (&heads[1], &heads[3]));
    format!("{} {}", heads[0].0.as_u16(), heads[0].1[header::CONTENT_LENGTH].to_str().unwrap())
}

#[tokio::test]
async fn a_refused_head_has_the_headers_of_a_get_and_no_body() {
    fn own(rejected: &Rejected) -> Response<Body> {
        let response = Response::builder().status(rejected.status());
        response.body(rejected.to_string().into()).unwrap()
    }
    let (_, absent, _server) = served().await;
    let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
    // Nobody listens there.
    let busy = BloomGuard::builder("users", pattern).redis("redis://127.0.0.1:1");
    let busy = busy.on_unknown(OnUnknown::Shed).build().unwrap();
    for (guard, status) in [(absent, "404"), (busy, "503")] {
        assert_eq!(refused(&guard, NotFound).await, format!("{status} 0"));
        for told in [refused(&guard, ProblemDetails).await, refused(&guard, Explained(own)).await] {
            assert!(told.starts_with(status) && !told.ends_with(" 0"), "{told}");
        }
    }
}
