//! The application: users over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use bloom_guard::{BloomGuard, BoxError};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::database::Database;

#[derive(Clone)]
struct App {
    database: Arc<Database>,
    guard: BloomGuard,
}

pub(crate) fn router(database: &Arc<Database>, guard: &BloomGuard) -> Router {
    Router::new()
        .route("/users", post(create))
        .route("/users/{id}", get(show).delete(delete))
        .route("/queries", get(queries))
        .with_state(App { database: Arc::clone(database), guard: guard.clone() })
}

async fn show(State(app): State<App>, Path(id): Path<i64>) -> Result<String, StatusCode> {
    let name = blocking(move || app.database.name(id)).await?;
    name.ok_or(StatusCode::NOT_FOUND)
}

/// Creates a user. The database draws the id, so the guard learns of it inside the transaction:
/// before the commit, or there would be a moment at which the user exists and is refused.
async fn create(State(app): State<App>, name: String) -> Result<String, StatusCode> {
    let runtime = Handle::current();
    let id = blocking(move || {
        // An insert that fails fails the transaction, and so the request.
        app.database.create_user(&name, |id| {
            runtime.block_on(app.guard.insert(&id))?;
            Ok(())
        })
    })
    .await?;
    Ok(format!("/users/{id}\n"))
}

/// Deletes a user. The guard hears of it after the commit; if it does not, requests for the id find
/// nothing in the database, which is slower and nothing worse.
async fn delete(State(app): State<App>, Path(id): Path<i64>) -> Result<StatusCode, StatusCode> {
    let database = app.database;
    if !blocking(move || database.delete(id)).await? {
        return Err(StatusCode::NOT_FOUND);
    }
    if let Err(error) = app.guard.remove(&id).await {
        eprintln!("a deleted id is not refused: {error}");
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn queries(State(app): State<App>) -> String {
    format!("{}\n", app.database.queries())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BoxError> + Send + 'static,
) -> Result<T, StatusCode> {
    match spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        _ => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}
