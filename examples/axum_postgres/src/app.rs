//! The service: users over HTTP behind the guard, and what an operator asks for.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bloom_guard::{BloomGuard, BoxError};
use deadpool_postgres::Pool;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::timeout;

use crate::database;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) pool: Pool,
    pub(crate) guard: BloomGuard,
    pub(crate) metrics: PrometheusHandle,
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/users", post(create))
        .route("/users/{id}", get(show).delete(delete))
        .layer(app.guard.clone())
        // Not behind the guard:
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(app)
}

async fn show(State(app): State<App>, Path(id): Path<i64>) -> Result<Response, Unavailable> {
    let name = database::name(&app.pool, id).await?;
    Ok(name.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response))
}

async fn create(State(app): State<App>, name: String) -> Result<Response, Unavailable> {
    let id = database::create(&app.pool, &app.guard, &name).await?;
    Ok((StatusCode::CREATED, format!("/users/{id}")).into_response())
}

async fn delete(State(app): State<App>, Path(id): Path<i64>) -> Result<StatusCode, Unavailable> {
    let deleted = database::delete(&app.pool, &app.guard, id).await?;
    Ok(if deleted { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
}

/// Whether this instance is of use: whether its database answers. Redis has no say, nor is it asked: without it
/// users found lately or copied are served, and an instance taken out for it would help nothing.
async fn ready(State(app): State<App>) -> Result<String, Unavailable> {
    let ping = async { Ok::<_, BoxError>(app.pool.get().await?.batch_execute("SELECT 1").await?) };
    timeout(Duration::from_secs(1), ping).await??;
    // What this process knows already.
    Ok(match app.guard.state().trouble {
        None => "ready\n".to_owned(),
        Some(trouble) => format!("ready, without a filter: {trouble}\n"),
    })
}

/// The guard's metrics, as the exporter writes them.
async fn metrics(State(app): State<App>) -> String {
    app.metrics.render()
}

/// An answer 503: the database did not do it, or the guard was not told and so nothing was committed.
struct Unavailable(BoxError);

impl<E: Into<BoxError>> From<E> for Unavailable {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Unavailable {
    fn into_response(self) -> Response {
        eprintln!("answered 503: {}", self.0);
        (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response()
    }
}
