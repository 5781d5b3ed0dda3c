//! Documents of several tenants: a 404 for a document of another tenant says nothing to the guard, and a marked one says
//! that the document is gone.
//!
//! `cargo run --example tenants`

use axum::extract::Path;
use axum::http::{HeaderMap, Request, StatusCode, header::AUTHORIZATION};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, body::Body, routing::get};
use bloom_guard::{
    BloomGuard, BoxError, Missing, NegativeCaching, PathPattern, Schedule, from_iter,
};
use tower::ServiceExt;

/// Documents 1 to 1,000 are Ann's; number 8 was deleted. Callers cannot tell the two 404s apart, but the guard can.
async fn show(Path(id): Path<u64>, headers: HeaderMap) -> Response {
    if id == 8 || id > 1_000 {
        return (StatusCode::NOT_FOUND, Extension(Missing)).into_response();
    }
    if headers.get(AUTHORIZATION).is_none_or(|caller| caller != "Bearer ann") {
        return StatusCode::NOT_FOUND.into_response();
    }
    format!("document {id}").into_response()
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let guard = BloomGuard::builder("documents", PathPattern::<u64>::new("/documents/{id}")?)
        .in_process()
        .rebuild(Schedule::manual(), from_iter(|| 1..=1_000_u64))
        // A 404 counts only with `Missing`.
        .negative_caching(NegativeCaching::new().require_marker(true))
        .lane(1, 1) // one at once, one a second, so that a few requests fill it
        .build()?;
    guard.ready().await;
    let app = Router::new().route("/documents/{id}", get(show)).layer(guard.clone());
    let ask = async |id: u64, caller: &str| {
        let request = Request::get(format!("/documents/{id}")).header(AUTHORIZATION, caller);
        Ok::<_, BoxError>(app.clone().oneshot(request.body(Body::empty())?).await?.status())
    };

    assert_eq!(ask(7, "Bearer ann").await?, StatusCode::OK);
    for id in 10..30 {
        assert_eq!(ask(7, "Bearer bob").await?, StatusCode::NOT_FOUND);
        ask(id, "Bearer bob").await?;
        ask(id, "Bearer bob").await?; // the lane: no room after the first
    }
    assert!(guard.stats().overloaded > 0, "bob has filled the lane");
    assert_eq!(ask(7, "Bearer ann").await?, StatusCode::OK, "ann does not need it");

    assert_eq!(ask(8, "Bearer bob").await?, StatusCode::NOT_FOUND);
    assert_eq!(ask(8, "Bearer ann").await?, StatusCode::NOT_FOUND);
    assert_eq!(guard.stats().absent_by_null, 1, "the second did not reach the handler");
    println!("bob's 404s cost ann nothing; what is gone is remembered for both");
    Ok(())
}
