//! What programs in other languages tell the guard over HTTP.
//!
//! | request | when | answer |
//! |---|---|---|
//! | `POST /ids`, a list: `[7, 8]` | before the commit | 204: all are inserted. Anything else, or no answer: the transaction must not commit |
//! | `DELETE /ids/7` | after the commit, once, and not later than `longest_transaction` | 204: told. Anything else is no harm |
//!
//! Whoever reaches this can have records refused, by removals: so it is on an address of its own, which only the
//! writers reach.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, post};
use axum::{Json, Router};
use bloom_guard::{BloomGuard, StoreError};

pub(crate) fn router(guard: BloomGuard) -> Router {
    Router::new().route("/ids", post(insert)).route("/ids/{id}", delete(remove)).with_state(guard)
}

/// The ids have the type that the handlers read, so that they get the same spelling.
async fn insert(
    State(guard): State<BloomGuard>,
    Json(ids): Json<Vec<i64>>,
) -> Result<StatusCode, NotDone> {
    guard.insert_many(ids).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remembered or withheld: either way nothing is left for the caller to do.
async fn remove(
    State(guard): State<BloomGuard>,
    Path(id): Path<i64>,
) -> Result<StatusCode, NotDone> {
    guard.remove(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An answer 503, which may be tried again; or 422 for an id that no handler could serve.
struct NotDone(StoreError);

impl From<StoreError> for NotDone {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl IntoResponse for NotDone {
    fn into_response(self) -> Response {
        let text = self.0.to_string();
        match self.0 {
            StoreError::InvalidId(_) => (StatusCode::UNPROCESSABLE_ENTITY, text).into_response(),
            _ => (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response(),
        }
    }
}
