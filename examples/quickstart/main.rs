//! A flood of requests for users that do not exist, over HTTP into `SQLite`: without the guard, then
//! with it.
//!
//! `cargo run --release --example quickstart`; with `-- --serve` it stays up, to be tried with curl.

mod app;
mod database;
mod flood;
mod report;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_blocking};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::database::Database;

const USERS: i64 = 100_000;
const REQUESTS: u64 = 20_000;

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let directory = tempfile::tempdir()?;
    let database = Arc::new(Database::create(&directory.path().join("users.sqlite"), USERS)?);
    let serve = std::env::args().any(|argument| argument == "--serve");
    // A look a second at whether refusals are right; who tries it by hand would see little else.
    let guard = guard(&database, if serve { 0 } else { 1 })?;
    guard.ready().await;
    if let Some(Ok(built)) = guard.rebuild_status().last {
        let (ids, kib, took) = (built.ids, built.bytes / 1024, built.took);
        println!("The filter: {ids} ids read from SQLite in {took:.0?}, {kib} KiB.");
    }
    let app = app::router(&database, &guard);
    if serve {
        serve_until_interrupted(app.layer(guard)).await?;
        return Ok(ExitCode::SUCCESS);
    }

    println!("{REQUESTS} requests without the guard ...");
    let without = measure(app.clone(), &database, &guard).await?;
    println!("... and with it ...");
    let with = measure(app.layer(guard.clone()), &database, &guard).await?;
    report::print(&without, &with);
    Ok(if with.flood.false_404s == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A guard whose filter lives in this process and is rebuilt from the database every hour.
fn guard(database: &Arc<Database>, audits_per_second: u32) -> Result<BloomGuard, BoxError> {
    let database = Arc::clone(database);
    let guard = BloomGuard::builder("users", PathPattern::<i64>::new("/users/{id}")?)
        .in_process()
        .capacity(120_000, 0.001)
        .audits_per_second(audits_per_second)
        .rebuild(
            Schedule::every(Duration::from_secs(3600)),
            from_blocking(move |ids| database.each_id(|id| ids.push(id))),
        )
        .build()?;
    Ok(guard)
}

/// Serves the application on a free port, floods it, and counts what that did to the database.
async fn measure(
    app: Router,
    database: &Database,
    guard: &BloomGuard,
) -> Result<report::Column, BoxError> {
    let refused = || guard.stats().absent_by_filter + guard.stats().absent_by_null;
    let (queries_before, refused_before) = (database.queries(), refused());
    let (address, server) = serve(app).await?;
    let begun = Instant::now();
    let flood = flood::flood(address, REQUESTS, USERS).await?;
    let took = begun.elapsed();
    server.abort();
    Ok(report::Column {
        flood,
        took,
        queries: database.queries() - queries_before,
        refused: refused() - refused_before,
    })
}

async fn serve(app: Router) -> Result<(SocketAddr, JoinHandle<()>), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        axum::serve(listener, app).await.expect("serving never ends by itself");
    });
    Ok((address, server))
}

async fn serve_until_interrupted(app: Router) -> Result<(), BoxError> {
    let (address, server) = serve(app).await?;
    println!(
        "Serving until Ctrl-C. Try:
  curl -i http://{address}/users/7               # exists
  curl -i http://{address}/users/7000000         # never created: refused, no query
  curl -i http://{address}/users/seven           # no id at all: refused, no query
  curl -i -d 'Zoe' http://{address}/users        # creates: insert, then commit
  curl -i -X DELETE http://{address}/users/8     # deletes: commit, then remove
  curl -i http://{address}/users/8               # missing: a query, and then none for half a minute
  curl -i http://{address}/queries               # queries so far"
    );
    tokio::signal::ctrl_c().await?;
    server.abort();
    Ok(())
}
