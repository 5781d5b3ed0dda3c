//! The whole way: requests over sockets to an axum server with the guard in front of its handlers.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use bloom_guard::BloomGuard;
use bloom_guard::rejection::{NotFound, ProblemDetails, Rejection};
use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use support::http::HttpServer;
use support::model::{Table, in_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const IDS: u64 = 1_000;
const HERE: &str = "/users/7";
const ABSENT: &str = "/users/70000";
const MALFORMED: &str = "/users/seven";

async fn show(State(table): State<Table>, Path(id): Path<u64>) -> Result<String, StatusCode> {
    if table.look_up(id) { Ok(format!("user {id}")) } else { Err(StatusCode::NOT_FOUND) }
}

/// Creates a user as one should: the id is acknowledged before the row is there for all.
async fn create(guard: BloomGuard, table: Table, id: u64) -> StatusCode {
    match guard.insert(&id).await {
        Ok(()) => {
            table.commit(id);
            StatusCode::CREATED
        }
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Serves a guard over users 0 to 999, its filter in this process and all but free of false positives.
async fn serve<R>(rejection: R) -> (Table, BloomGuard, HttpServer)
where
    R: Rejection<axum::body::Body> + Send + Sync + 'static,
{
    let table = Table::with(0..IDS);
    let guard = in_process(&table, 10_000, 1e-9).build().unwrap();
    guard.ready().await;
    let (creator, created) = (guard.clone(), table.clone());
    let post = move |Path(id): Path<u64>| create(creator, created, id);
    let app = Router::new()
        .route("/users/{id}", get(show).post(post))
        .layer(guard.rejecting_with(rejection))
        .with_state(table.clone());
    let server = HttpServer::start(app).await;
    (table, guard, server)
}

async fn served() -> (Table, BloomGuard, HttpServer) {
    serve(NotFound).await
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

#[tokio::test]
async fn a_record_is_served_from_the_request_after_its_creation_on() {
    let (_, _, server) = served().await;
    let (mut creator, mut reader) = (server.connect().await, server.connect().await);
    for id in IDS..IDS + 100 {
        let target = format!("/users/{id}");
        assert_refused(&reader.get(&target).await, StatusCode::NOT_FOUND);
        assert_eq!(creator.send(Method::POST, &target).await.status(), StatusCode::CREATED);
        assert_eq!(reader.get(&target).await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn problem_details_have_a_body_for_get_and_none_for_head() {
    let (_, _, server) = serve(ProblemDetails).await;
    let mut client = server.connect().await;

    let response = client.get(ABSENT).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    let detail = "the resource does not exist";
    let expected = serde_json::json!({ "title": "Not Found", "status": 404, "detail": detail });
    assert_eq!(problem, expected);

    // On the wire: what follows the head is the next response, no body.
    let mut stream = server.raw().await;
    let head = format!("HEAD {ABSENT} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let last = format!("HEAD {HERE} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(format!("{head}{last}").as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    let heads: Vec<&str> = answers.split_terminator("\r\n\r\n").collect();
    assert_eq!(heads.len(), 2, "{answers}");
    assert!(heads[0].starts_with("HTTP/1.1 404 ") && heads[1].starts_with("HTTP/1.1 200 "));
    assert!(heads[0].contains("application/problem+json"));
}
