//! Users that a Python program creates and deletes, served by axum behind the guard.
//!
//! `cargo run --release -p python_writer` starts PostgreSQL and Redis in a temporary directory, serves, has `writer.py`
//! write and look, also without Redis, and ends. It needs `pip install -r requirements.txt`. `PYTHON` names another
//! Python; `DATABASE_URL` and `REDIS_URL` name other servers: there it leaves a table `python_users` and the keys
//! `bg:{python_users}:*` behind.

mod ids;
#[path = "../../axum_postgres/src/servers.rs"]
mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use bloom_guard::rebuild::RebuildSource;
use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_fn};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::sleep;
use tokio_postgres::{Client, Config, NoTls};

use crate::servers::Server;

const SCHEMA: &str = "
    DROP TABLE IF EXISTS python_users;
    CREATE TABLE python_users (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
    INSERT INTO python_users (name) SELECT 'user ' || n FROM generate_series(1, 1000) n";

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let (postgres, redis) = (Server::postgres(directory.path())?, Server::redis(directory.path())?);
    let config: Config = postgres.url.parse()?;
    let client = Arc::new(connect(&config).await?);
    client.batch_execute(SCHEMA).await?;
    let guard = BloomGuard::builder("python_users", PathPattern::<i64>::new("/users/{id}")?)
        .redis(&redis.url)
        .rebuild(Schedule::every(Duration::from_secs(3600)), source(Arc::clone(&client)))
        // Above what `writer.py` allows a transaction, which is a minute.
        .longest_transaction(Duration::from_secs(120))
        // Only for this trial: see the example `axum_postgres`.
        .settle(Duration::ZERO)
        .audits_per_second(0)
        .build()?;
    guard.rebuild_accepting_loss().await?;

    let users = Router::new().route("/users/{id}", get(show)).layer(guard.clone());
    let service = serve(users.with_state(client)).await?;
    // On an address that only the writers reach.
    let internal = serve(ids::router(guard.clone())).await?;
    let run = async |part| write(part, &postgres.url, &service, &internal).await;

    run("with_redis").await?;
    let stats = guard.stats();
    // Two created, one rolled back, one told late, and a thousand at once.
    assert_eq!((stats.inserts, stats.inserts_failed), (1_004, 0));
    assert_eq!(stats.removals + stats.removals_withheld, 1);
    if redis.is_own() {
        drop(redis);
        run("without_redis").await?;
        let stats = guard.stats();
        assert_eq!((stats.inserts, stats.inserts_failed, stats.removals_failed), (1_004, 1, 1));
    }
    Ok(())
}

/// Connects as soon as PostgreSQL takes connections.
async fn connect(config: &Config) -> Result<Client, BoxError> {
    let begun = Instant::now();
    loop {
        match config.connect(NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

fn source(client: Arc<Client>) -> impl RebuildSource {
    from_fn(async move |ids| {
        let rows = client.query("SELECT id FROM python_users", &[]).await?;
        for row in rows {
            ids.push(&row.try_get::<_, i64>(0)?).await?;
        }
        Ok(())
    })
}

async fn show(
    State(client): State<Arc<Client>>,
    Path(id): Path<i64>,
) -> Result<String, StatusCode> {
    let row = client.query_opt("SELECT name FROM python_users WHERE id = $1", &[&id]).await;
    let row = row.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    row.map(|row| row.get(0)).ok_or(StatusCode::NOT_FOUND)
}

async fn serve(app: Router) -> Result<String, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

/// Runs a part of `writer.py`, which fails where something is not as it should be.
async fn write(part: &str, database: &str, service: &str, internal: &str) -> Result<(), BoxError> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let status = Command::new(python)
        .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/writer.py"), part])
        .envs([("DATABASE_URL", database), ("SERVICE_URL", service), ("GUARD_URL", internal)])
        .status()
        .await?;
    if status.success() { Ok(()) } else { Err(format!("writer.py {part}: {status}").into()) }
}
