//! The application whose handlers say what they saw, and what the extractors have to agree to.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bloom_guard::extract::{Extraction, IdExtractor};
use bloom_guard::{Id, InvalidId, PathPattern};
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

pub trait Value: FromStr + Display + DeserializeOwned + Send + Sync + 'static {}
impl<T: FromStr + Display + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// What the application made of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// The handler looked up this value.
    Value(Vec<u8>),
    /// The handler's extractor answered 400.
    Rejected,
    /// No handler was called that looks up an id.
    Nothing,
}

pub async fn by_id<T: Value>(Path(id): Path<T>) -> String {
    id.to_string()
}

pub async fn by_tenant_and_id<T: Value>(Path((_, id)): Path<(String, T)>) -> String {
    id.to_string()
}

pub fn paths<T: Value>() -> Router {
    Router::new()
        .route("/users/{id}", get(by_id::<T>))
        .route("/users/{id}/posts", get(by_id::<T>))
        .route("/users/new-{id}", get(by_id::<T>))
        .route("/users/me", get(StatusCode::NO_CONTENT))
        .route("/t/{tenant}/users/{id}", get(by_tenant_and_id::<T>))
        .route("/files/{*id}", get(by_id::<T>))
}

pub fn pattern<T: Value>() -> PathPattern<T> {
    PathPattern::new("/users/{id}")
        .and_then(|users| users.or("/users/{id}/posts"))
        .and_then(|users| users.or("/users/new-{id}"))
        .and_then(|users| users.or("/t/{tenant}/users/{id}"))
        .and_then(|users| users.or("/files/{*id}"))
        .and_then(|users| users.except("/users/me"))
        .unwrap()
}

#[derive(Deserialize)]
pub struct Wanted<T> {
    id: Option<T>,
}

pub async fn by_query<T: Value>(Query(wanted): Query<Wanted<T>>) -> Response {
    match wanted.id {
        Some(id) => id.to_string().into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Adds a layer that runs an extractor and reports what it found.
pub fn probed(app: Router, extractor: impl IdExtractor) -> Router {
    app.layer(middleware::from_fn_with_state(Arc::new(extractor) as Probe, probe))
}

pub type Probe = Arc<dyn IdExtractor>;

pub async fn probe(State(extractor): State<Probe>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let extraction = extractor.extract(&parts);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    response.extensions_mut().insert(extraction);
    response
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

pub async fn ask(app: Router, target: Uri) -> (Extraction, Seen) {
    let request = Request::get(target).body(Body::empty()).unwrap();
    let response = app.oneshot(request).await.unwrap();
    let extraction = response.extensions().get::<Extraction>().unwrap().clone();
    let seen = match response.status() {
        StatusCode::OK => {
            Seen::Value(response.into_body().collect().await.unwrap().to_bytes().to_vec())
        }
        StatusCode::BAD_REQUEST => Seen::Rejected,
        StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Seen::Nothing,
        other => panic!("unexpected status {other}"),
    };
    (extraction, seen)
}

/// Returns the decoded length of the longest text in a target that can be its id.
pub fn longest(target: &Uri) -> usize {
    let path = target.path();
    let segments = match path.strip_prefix("/files/") {
        Some(rest) => vec![rest],
        None => path.split('/').collect(),
    };
    let pairs = target.query().unwrap_or_default().split('&');
    let values = pairs.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
    // In a query what is not UTF-8 becomes a longer letter that is.
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().len();
    segments.into_iter().chain(values).map(decoded).max().unwrap_or(0)
}

/// Whether a handler cannot read the capture beside the id, so that it does not come to see the id.
fn is_foreign(path: &str) -> bool {
    let tenant = path.strip_prefix("/t/").and_then(|rest| rest.split('/').next());
    tenant.is_some_and(|tenant| percent_decode_str(tenant).decode_utf8().is_err())
}

/// Names how guard and handler agree about a request, or says how they do not.
pub fn agreement(
    target: &Uri,
    extraction: &Extraction,
    seen: &Seen,
) -> Result<&'static str, String> {
    match (extraction, seen) {
        (Extraction::Id(id), Seen::Value(value)) if id.as_bytes() == value => Ok("same id"),
        (Extraction::Invalid(InvalidId::TooLong { .. }), Seen::Value(_))
            if longest(target) > Id::MAX_LEN =>
        {
            Ok("long")
        }
        (Extraction::Invalid(_), Seen::Rejected) => Ok("both refuse"),
        (Extraction::Unguarded, Seen::Nothing) => Ok("no id"),
        (Extraction::Id(_) | Extraction::Unguarded, Seen::Rejected)
            if is_foreign(target.path()) =>
        {
            Ok("other capture")
        }
        _ => Err(format!("{target}: the guard has {extraction:?}, the handler {seen:?}")),
    }
}
