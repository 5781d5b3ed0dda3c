//! The guard around the routes of an axum router, its filter in Redis.
//!
//! `cargo run --example axum_redis --features axum`, with a Redis at `REDIS_URL` or on this machine.
//! Serves on loopback, asks itself, ends. Leaves the keys `bg:{example-users}:*` behind.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use bloom_guard::extract::Captures;
use bloom_guard::{BloomGuard, BoxError, Schedule, from_iter};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::time::timeout;

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let table = Arc::new(Mutex::new(BTreeSet::from_iter(1..=1_000_u64)));
    let rows = Arc::clone(&table);
    let source = from_iter(move || rows.lock().expect("not poisoned").clone());
    let guard = BloomGuard::builder("example-users", Captures::<u64>::new("id"))
        .redis(&url)
        .rebuild(Schedule::every(Duration::from_secs(3600)), source)
        // By default a new filter refuses nothing for half an hour: while a service is rolled out, other
        // processes may still create users without inserting them. Here there is only this one.
        .settle(Duration::ZERO)
        // By default one refusal a second goes to the handler, to see whether it is right. Here the
        // first would be the only one, and it is to show who answers.
        .audits_per_second(0)
        .build()?;

    let rows = Arc::clone(&table);
    let show = async move |Path(id): Path<u64>| match rows.lock().expect("not poisoned").get(&id) {
        Some(id) => Ok(format!("user {id}")),
        None => Err(StatusCode::NOT_FOUND),
    };
    let app = Router::new().route("/users/{id}", get(show)).route_layer(guard.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let status = async |id: u64| -> Result<StatusCode, BoxError> {
        Ok(client.get(format!("http://{address}/users/{id}").parse()?).await?.status())
    };
    // The service answers at once, whether or not there is a Redis.
    println!("an existing user: {}", status(7).await?);
    if timeout(Duration::from_secs(3), guard.ready()).await.is_err() {
        println!("a missing user, unguarded: {}", status(7_000).await?);
        let trouble = guard.state().trouble.unwrap_or_default();
        eprintln!("No filter can be had ({trouble}). Start redis-server or set REDIS_URL.");
        return Ok(ExitCode::FAILURE);
    }
    let id = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
    println!("a user never created: {}", status(id).await?);
    assert_eq!(guard.stats().refused, 1, "by the guard: the handler was not called");
    guard.insert(&id).await?; // acknowledged before the record is committed
    table.lock().expect("not poisoned").insert(id);
    println!("just created: {}", status(id).await?);
    assert_eq!((status(7).await?, status(id).await?), (StatusCode::OK, StatusCode::OK));
    let stats = guard.stats();
    println!("refused by the guard: {} of {} requests", stats.refused, stats.requests);
    Ok(ExitCode::SUCCESS)
}
