//! A service with axum and sqlx whose filter is rebuilt by one query.
//!
//! `cargo run --manifest-path examples/sqlx/Cargo.toml`. On SQLite in memory and with the filter in process, so that it needs no
//! server. With PostgreSQL it is `PgPool`, `$1`, `RETURNING id` and sqlx's feature `postgres`; with Redis `.redis(&url)`, this crate's
//! default features and, to try it out, `.settle(Duration::ZERO)`.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::request::Builder;
use axum::routing::{get, post};
use axum::{Json, Router};
use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_stream};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::time::timeout;
use tower::ServiceExt;

#[derive(Clone)]
struct App {
    pool: SqlitePool,
    guard: BloomGuard,
}

async fn show(State(app): State<App>, Path(id): Path<i64>) -> Result<String, StatusCode> {
    let name = sqlx::query_scalar("SELECT name FROM users WHERE id = ?").bind(id);
    let name =
        name.fetch_optional(&app.pool).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    name.ok_or(StatusCode::NOT_FOUND)
}

/// The id is inserted before the transaction commits, and without that it does not commit.
async fn create(State(app): State<App>, Json(name): Json<String>) -> Result<String, StatusCode> {
    let created = async {
        let mut transaction = app.pool.begin().await?;
        let user = sqlx::query("INSERT INTO users (name) VALUES (?)").bind(name);
        let id = user.execute(&mut *transaction).await?.last_insert_rowid();
        app.guard.insert(&id).await?;
        transaction.commit().await?;
        Ok::<_, BoxError>(id.to_string())
    };
    created.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

async fn app() -> Result<Router, BoxError> {
    // Each connection to memory is a database of its own, so there is one.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        .execute(&pool)
        .await?;
    sqlx::query("INSERT INTO users (name) VALUES ('Ada'), ('Grace')").execute(&pool).await?;
    let source = from_stream(pool.clone(), |pool| {
        sqlx::query_scalar::<_, i64>("SELECT id FROM users").fetch(pool)
    });
    let guard = BloomGuard::builder("users", PathPattern::<i64>::new("/users/{id}")?)
        .in_process()
        .rebuild(Schedule::every(Duration::from_secs(3600)), source)
        .build()?;
    // Until the first filter is there, requests pass; an empty table has none.
    timeout(Duration::from_secs(10), guard.ready()).await.ok();
    let routes = Router::new().route("/users/{id}", get(show)).route("/users", post(create));
    Ok(routes.layer(guard.clone()).with_state(App { pool, guard }))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let app = app().await?;
    let ask = async |request: Builder, body: &'static str| {
        let request = request.header("content-type", "application/json").body(Body::from(body))?;
        let response = app.clone().oneshot(request).await?;
        Ok::<_, BoxError>((
            response.status(),
            axum::body::to_bytes(response.into_body(), 1024).await?,
        ))
    };
    let user = |id: i64| axum::http::Request::get(format!("/users/{id}"));
    let (found, name) = ask(user(1), "").await?;
    println!("user 1: {found}, {}", String::from_utf8_lossy(&name));
    let (absent, answer) = ask(user(3), "").await?;
    println!("user 3: {absent}, {}", String::from_utf8_lossy(&answer));
    let (created, id) = ask(axum::http::Request::post("/users"), "\"Alan\"").await?;
    println!("created: {created}, {}", String::from_utf8_lossy(&id));
    let (there, name) = ask(user(3), "").await?;
    println!("user 3: {there}, {}", String::from_utf8_lossy(&name));
    let statuses = [found, absent, created, there].map(|status| status.as_u16());
    assert_eq!((statuses, &*name), ([200, 404, 200, 200], &b"Alan"[..]));
    Ok(())
}
