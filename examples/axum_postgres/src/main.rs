//! An axum service on PostgreSQL and Redis with the guard: what it tells the guard, and when.
//!
//! `cargo run --release -p axum_postgres` starts both servers in a temporary directory, asks the service, ends.
//! `DATABASE_URL` and `REDIS_URL` name others; there it leaves tables `example_users` and `example_outbox` and the keys
//! `bg:{example_users}:*` behind.

mod app;
mod database;
mod listener;
mod servers;

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule};
use deadpool_postgres::Pool;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Config, NoTls};
use tower::ServiceExt;

use crate::servers::Server;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let (postgres, redis) = (Server::postgres(directory.path())?, Server::redis(directory.path())?);
    let config: Config = postgres.url.parse()?;
    let pool = database::pool(config.clone())?;
    database::create_schema(&pool).await?;

    // Before the guard is built: it counts for the recorder that is there then.
    let metrics = PrometheusBuilder::new().install_recorder()?;
    tokio::spawn(keep_up(metrics.clone()));
    let guard = guard(&redis.url, &config)?;
    // The table was made anew. A service would wait for `guard.ready()`, with a limit.
    guard.rebuild_accepting_loss().await?;
    let listen = || tokio::spawn(listener::listen(config.clone(), guard.clone()));
    let listening = listen();
    let app = app::App { pool: pool.clone(), guard: guard.clone(), metrics };
    // axum::serve(listener, app::router(app)).await?; or, to see it at work here:
    let service = Service(app::router(app));
    create_and_delete(&service, &guard).await?;
    import(&service, &pool, &guard).await?;
    let id = write_past_the_guard(&config).await?;
    serves(&service, id).await?;
    listening.abort();
    let id = write_past_the_guard(&config).await?;
    // While nobody listens, neither the guard nor the handler shows the row.
    assert_eq!(service.get(&format!("/users/{id}")).await?, StatusCode::NOT_FOUND);
    let listening = listen();
    serves(&service, id).await?;
    assert_eq!(guard.stats().false_negatives, 0, "no refusal was wrong");
    watch(&service).await?;
    if redis.is_own() {
        lose_redis(&service, &pool, redis).await?;
    }
    listening.abort();
    Ok(())
}

/// Has the recorder make room, in case nothing reads it.
async fn keep_up(metrics: PrometheusHandle) {
    loop {
        sleep(Duration::from_secs(5)).await;
        metrics.run_upkeep();
    }
}

fn guard(redis: &str, config: &Config) -> Result<BloomGuard, BoxError> {
    let guard = BloomGuard::builder("example_users", PathPattern::<i64>::new("/users/{id}")?)
        .redis(redis)
        .capacity(1_000_000, 0.001)
        .rebuild(Schedule::every(Duration::from_secs(3600)), database::ids(config.clone()))
        .longest_transaction(5 * database::LONGEST)
        // By default a new filter refuses nothing for half an hour: while a service is rolled out, other
        // processes may still create users without inserting them. Here there is only this one.
        .settle(Duration::ZERO)
        // By default one refusal a second goes to the handler, to see whether it is right. Here the first
        // would be the only one, and it is to show who answers.
        .audits_per_second(0)
        .build()?;
    Ok(guard)
}

async fn create_and_delete(service: &Service, guard: &BloomGuard) -> Result<(), BoxError> {
    assert_eq!(service.get("/users/7").await?, StatusCode::OK);
    assert_eq!(service.get("/users/7000000").await?, StatusCode::NOT_FOUND);
    assert_eq!(guard.stats().refused, 1, "by the guard: the handler was not called");

    let (status, path) = service.send(Method::POST, "/users", "Zoe").await?;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(service.get(&path).await?, StatusCode::OK);
    let (status, _) = service.send(Method::DELETE, &path, "").await?;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(service.get(&path).await?, StatusCode::NOT_FOUND);
    println!("{path}: created, served, deleted, gone");
    Ok(())
}

async fn import(service: &Service, pool: &Pool, guard: &BloomGuard) -> Result<(), BoxError> {
    let without = database::import(pool, None, 500_000).await?.took;
    let import = database::import(pool, Some(guard), 500_000).await?;
    let share = 100.0 * (1.0 - without.as_secs_f64() / import.took.as_secs_f64());
    println!(
        "{} users imported in {:.1?}, without the guard in {without:.1?}: {share:.0} % are the guard's",
        import.ids.len(),
        import.took
    );
    for id in import.ids.iter().step_by(10_000) {
        assert_eq!(service.get(&format!("/users/{id}")).await?, StatusCode::OK);
    }
    Ok(())
}

/// Writes a row as a program does that has never heard of the guard.
async fn write_past_the_guard(config: &Config) -> Result<i64, BoxError> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let insert = "INSERT INTO example_users (name) VALUES ('Max') RETURNING id";
    Ok(client.query_one(insert, &[]).await?.get(0))
}

/// Waits until such a row is served.
async fn serves(service: &Service, id: i64) -> Result<(), BoxError> {
    let begun = Instant::now();
    let served = async {
        while service.get(&format!("/users/{id}")).await? != StatusCode::OK {
            sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, BoxError>(())
    };
    timeout(Duration::from_secs(10), served).await??;
    println!("/users/{id}: written by another program, served after {:.0?}", begun.elapsed());
    Ok(())
}

async fn watch(service: &Service) -> Result<(), BoxError> {
    assert_eq!(service.get("/livez").await?, StatusCode::OK);
    assert_eq!(service.get("/readyz").await?, StatusCode::OK);
    let (_, metrics) = service.send(Method::GET, "/metrics", "").await?;
    for line in metrics.lines().filter(|line| line.starts_with("bloom_guard_")) {
        println!("{line}");
    }
    assert!(metrics.contains("bloom_guard_filter_live{filter=\"example_users\"} 1"));
    Ok(())
}

/// Without Redis, users found lately or copied are served, nothing is created, and the instance stays in use.
async fn lose_redis(service: &Service, pool: &Pool, redis: Server) -> Result<(), BoxError> {
    drop(redis);
    assert_eq!(service.get("/users/7").await?, StatusCode::OK);
    let (status, _) = service.send(Method::POST, "/users", "Ida").await?;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let created = "SELECT count(*) FROM example_users WHERE name = 'Ida'";
    assert_eq!(pool.get().await?.query_one(created, &[]).await?.get::<_, i64>(0), 0);
    assert_eq!(service.get("/livez").await?, StatusCode::OK);
    let (status, state) = service.send(Method::GET, "/readyz", "").await?;
    assert_eq!(status, StatusCode::OK);
    print!("without Redis: users found lately or copied are served, none is created; {state}");
    Ok(())
}

/// The service, as a client sees it.
struct Service(Router);

impl Service {
    async fn get(&self, path: &str) -> Result<StatusCode, BoxError> {
        Ok(self.send(Method::GET, path, "").await?.0)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &'static str,
    ) -> Result<(StatusCode, String), BoxError> {
        let request = Request::builder().method(method).uri(path).body(Body::from(body))?;
        let response = self.0.clone().oneshot(request).await?;
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await?;
        Ok((status, String::from_utf8(body.to_vec())?))
    }
}
