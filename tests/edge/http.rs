//! The whole way: requests over sockets to an axum server with the guard in front of its handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use bloom_guard::{
    BloomGuard, Builder, NotFound, PathPattern, ProblemDetails, RejectReason, Rejected, Rejection,
    Schedule,
};
use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use support::eventually;
use support::http::{HttpClient, HttpServer};
use support::model::{self, Table};
use support::redis_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

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

fn app(guard: &BloomGuard, table: &Table) -> Router {
    app_rejecting_with(NotFound, guard, table)
}

fn app_rejecting_with<R>(rejection: R, guard: &BloomGuard, table: &Table) -> Router
where
    R: Rejection<axum::body::Body> + Send + Sync + 'static,
{
    let (creator, created) = (guard.clone(), table.clone());
    let post = move |Path(id): Path<u64>| create(creator, created, id);
    Router::new()
        .route("/users/{id}", get(show).post(post))
        .layer(guard.rejecting_with(rejection))
        .with_state(table.clone())
}

/// A guard over users 0 to 999, its filter in this process and all but free of false positives.
fn builder(table: &Table) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .capacity(10_000, 1e-9)
        .rebuild(Schedule::manual(), table.clone())
        // What reaches the handler is counted.
        .audits_per_second(0)
}

async fn serve(guard: &BloomGuard, table: &Table) -> HttpServer {
    guard.ready().await;
    HttpServer::start(app(guard, table)).await
}

async fn serve_rejecting_with<R>(rejection: R, guard: &BloomGuard, table: &Table) -> HttpServer
where
    R: Rejection<axum::body::Body> + Send + Sync + 'static,
{
    guard.ready().await;
    HttpServer::start(app_rejecting_with(rejection, guard, table)).await
}

async fn served() -> (Table, BloomGuard, HttpServer) {
    let table = Table::with(0..IDS);
    let guard = builder(&table).build().unwrap();
    let server = serve(&guard, &table).await;
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
    let (table, _, server) = served().await;
    let mut client = server.connect().await;
    let response = client.get(HERE).await;
    assert_eq!((response.status(), &response.body()[..]), (StatusCode::OK, &b"user 7"[..]));
    assert_eq!(table.lookups(), 1);
    assert_refused(&client.get(ABSENT).await, StatusCode::NOT_FOUND);
    assert_eq!(table.lookups(), 1, "the handler was not called");
}

#[tokio::test]
async fn head_is_answered_as_get_is_without_a_body() {
    let (table, _, server) = served().await;
    let mut client = server.connect().await;
    let response = client.send(Method::HEAD, HERE).await;
    assert_eq!((response.status(), response.body().len()), (StatusCode::OK, 0));
    assert_refused(&client.send(Method::HEAD, ABSENT).await, StatusCode::NOT_FOUND);
    assert_eq!(table.lookups(), 1);
}

#[tokio::test]
async fn other_methods_reach_the_application() {
    let (_, guard, server) = served().await;
    let mut client = server.connect().await;
    assert_eq!(client.send(Method::POST, ABSENT).await.status(), StatusCode::CREATED);
    // The router's own answers, not the guard's.
    let deleted = client.send(Method::DELETE, "/users/80000").await;
    assert_eq!(deleted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(client.send(Method::POST, MALFORMED).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(guard.stats().unguarded, 3);
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
    let table = Table::with(0..IDS);
    let guard = builder(&table).build().unwrap();
    let server = serve_rejecting_with(ProblemDetails, &guard, &table).await;
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

#[tokio::test]
async fn a_closure_makes_the_response() {
    let table = Table::with(0..IDS);
    let sorry = |rejected: &Rejected| {
        let text = match rejected.reason() {
            RejectReason::Absent(proof) => format!("absent by {}", proof.as_str()),
            other => format!("{other:?}"),
        };
        let mut response = Response::new(axum::body::Body::from(text));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    };
    let guard = builder(&table).build().unwrap();
    let server = serve_rejecting_with(sorry, &guard, &table).await;
    let mut client = server.connect().await;
    let response = client.get(ABSENT).await;
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert_eq!(response.body(), "absent by filter");
    assert_eq!(client.get(MALFORMED).await.body(), "Invalid(Malformed)");
}

#[tokio::test]
async fn a_connection_outlives_any_number_of_refusals() {
    let (table, guard, server) = served().await;
    // `HttpClient` never reconnects, so every answer came over the one connection.
    let mut client = server.connect().await;
    for _ in 0..200 {
        assert_refused(&client.get(ABSENT).await, StatusCode::NOT_FOUND);
        assert_refused(&client.get(MALFORMED).await, StatusCode::NOT_FOUND);
        assert_refused(&client.send(Method::HEAD, ABSENT).await, StatusCode::NOT_FOUND);
        assert_eq!(client.get(HERE).await.body(), "user 7");
    }
    assert_eq!((table.lookups(), guard.stats().requests), (200, 800));
}

/// Where a client is in its requests: 19 of 20 are for ids that were never created.
fn target(n: u64) -> (u64, bool) {
    if n.is_multiple_of(20) { (n / 20 % IDS, true) } else { (IDS + n * 7_919, false) }
}

/// Asks for the n-th target; returns whether the answer was the right one.
async fn ask(client: &mut HttpClient, n: u64) -> Result<(), String> {
    let (id, exists) = target(n);
    let status = client.get(&format!("/users/{id}")).await.status();
    let right = if exists { StatusCode::OK } else { StatusCode::NOT_FOUND };
    if status == right { Ok(()) } else { Err(format!("user {id}, exists: {exists}: {status}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_meets_no_false_404_and_the_database_only_what_exists() {
    const REQUESTS: u64 = 10_000;
    const CLIENTS: u64 = 8;
    let (table, guard, server) = served().await;
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let mut client = server.connect().await;
        clients.spawn(async move {
            for n in (first..REQUESTS).step_by(CLIENTS as usize) {
                ask(&mut client, n).await?;
            }
            Ok::<_, String>(())
        });
    }
    for ended in clients.join_all().await {
        ended.unwrap();
    }
    assert_eq!(guard.stats().requests, REQUESTS);
    assert_eq!(table.lookups(), REQUESTS / 20, "false positives are one in a thousand million");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_amid_traffic_costs_no_false_404_and_no_answer() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = model::guard_over(&redis.url(), &table).capacity(10_000, 1e-9).build().unwrap();
    model::live(&guard).await;
    let server = HttpServer::start(app(&guard, &table)).await;

    let answered = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for first in 0..4 {
        let (mut client, answered) = (server.connect().await, Arc::clone(&answered));
        clients.spawn(async move {
            for n in (first..).step_by(4) {
                if let Err(wrong) = ask(&mut client, n).await {
                    return wrong;
                }
                answered.fetch_add(1, Ordering::SeqCst);
            }
            unreachable!()
        });
    }
    // Each phase lasts until enough was answered in it; a wrong or missing answer ends its client.
    let phase = async |what: &str, clients: &mut JoinSet<String>| {
        let before = answered.load(Ordering::SeqCst);
        eventually(what, Duration::from_secs(20), || async {
            match answered.load(Ordering::SeqCst) - before {
                1_000.. => Ok(()),
                few => Err(format!("{few} answers")),
            }
        })
        .await;
        if let Some(ended) = clients.try_join_next() {
            panic!("{what}: {}", ended.unwrap());
        }
    };
    phase("answers with Redis", &mut clients).await;
    let refused = guard.stats().absent_by_filter;
    assert!(refused >= 900, "{refused}");
    redis.kill();
    phase("answers without Redis", &mut clients).await;
    assert!(guard.stats().unknown > 0);
    redis.restart();
    phase("answers from a Redis that has lost the filter", &mut clients).await;
    model::live(&guard).await;
    phase("answers with the filter rebuilt", &mut clients).await;
    assert!(guard.stats().absent_by_filter > refused);
}
