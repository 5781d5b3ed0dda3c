//! A service guarded with the Bloom filter that a go-zero service keeps in Redis.
//!
//! `cargo run --example go_zero`, with a Redis at `REDIS_URL` or on this machine.
//! Serves on loopback, asks itself, ends. Leaves the keys `bloom:example-users` and `{bloom:example-users}:bg:trust` behind.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use bloom_guard::{BloomGuard, BoxError, ForeignFilter, PathPattern};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use redis::aio::MultiplexedConnection;
use tokio::net::TcpListener;
use tokio::time::timeout;

const KEY: &str = "bloom:example-users";
const USERS: u64 = 1_000;

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let Ok(mut redis) = redis::Client::open(&*url)?.get_multiplexed_async_connection().await else {
        eprintln!("No Redis answers. Start redis-server or set REDIS_URL.");
        return Ok(ExitCode::FAILURE);
    };
    // In Go: `filter := bloom.New(store, "bloom:example-users", 20_000)`, then `filter.Add(...)` for each user.
    let bits = 20 * USERS;
    go_zero_adds(&mut redis, bits, 1..=USERS).await?;

    let guard = BloomGuard::builder("example-go-zero", PathPattern::<u64>::new("/users/{id}")?)
        .redis(&url)
        .foreign(ForeignFilter::go_zero(KEY, bits))
        // By default one refusal a second goes to the handler, to see whether it is right. Here the
        // first would be the only one, and it is to show who answers.
        .audits_per_second(0)
        .build()?;
    // By hand and once, in an application, with ids from the database: here the filter was filled a moment ago.
    guard.trust_foreign(1..=USERS).await?;
    timeout(Duration::from_secs(3), guard.ready()).await?;
    let live = guard.state().live.map_err(|doubt| doubt.as_str())?;
    println!("{} ids, {:.1e} false positives", live.items, live.expected_rate);

    let table = Arc::new(Mutex::new(BTreeSet::from_iter(1..=USERS)));
    let rows = Arc::clone(&table);
    let show = async move |Path(id): Path<u64>| match rows.lock().expect("not poisoned").get(&id) {
        Some(id) => Ok(format!("user {id}")),
        None => Err(StatusCode::NOT_FOUND),
    };
    let app = Router::new().route("/users/{id}", get(show)).layer(guard.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let status = async |id: u64| -> Result<StatusCode, BoxError> {
        Ok(client.get(format!("http://{address}/users/{id}").parse()?).await?.status())
    };

    let id = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
    println!("an existing user: {}", status(7).await?);
    println!("a user never created: {}", status(id).await?);
    assert_eq!(guard.stats().refused, 1, "by the guard: the handler was not called");

    // The go-zero service goes on creating users: into the filter first, then into the database.
    go_zero_adds(&mut redis, bits, [id]).await?;
    table.lock().expect("not poisoned").insert(id);
    // So does this one, and go-zero's `filter.Exists` finds its users.
    guard.insert(&(id + 1)).await?;
    table.lock().expect("not poisoned").insert(id + 1);
    for id in [7, id, id + 1] {
        assert_eq!(status(id).await?, StatusCode::OK, "user {id}");
    }
    let stats = guard.stats();
    println!("refused by the guard: {} of {} requests", stats.refused, stats.requests);
    Ok(ExitCode::SUCCESS)
}

/// Adds users as go-zero's `core/bloom` does: 14 bits each, by the hash of the id and a byte that counts.
async fn go_zero_adds(
    redis: &mut MultiplexedConnection,
    bits: u64,
    ids: impl IntoIterator<Item = u64>,
) -> Result<(), BoxError> {
    let mut commands = redis::pipe();
    for id in ids {
        for number in 0..14 {
            let numbered = [id.to_string().as_bytes(), &[number]].concat();
            let hash = murmur3::murmur3_x64_128(&mut Cursor::new(numbered), 0)? as u64;
            commands.cmd("SETBIT").arg(KEY).arg(hash % bits).arg(1).ignore();
        }
    }
    Ok(commands.query_async(redis).await?)
}
