//! A 404 that is about something else than the record, or meant for one caller, hides the record from
//! nobody.

use std::convert::Infallible;

use bloom_guard::{BloomGuard, Rejected};
use http::{Method, Request, Response, StatusCode, header};
use support::model::{Table, in_process};
use tower::{Layer, Service, ServiceExt};

/// Serves every record, except where a request asks for a revision that it does not have, has no right to
/// it, comes by HEAD, or asks for something that must not be kept.
async fn show(request: Request<String>) -> Result<Response<String>, Infallible> {
    let missing = request.uri().query().is_some()
        || request.headers().contains_key(header::COOKIE)
        || request.headers().contains_key(header::AUTHORIZATION)
        || request.method() == Method::HEAD
        || request.headers().contains_key("x-fresh");
    let mut response = Response::new("handled".to_owned());
    if missing {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    if request.headers().contains_key("x-fresh") {
        let no_store = header::HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    }
    Ok(response)
}

/// Requests for a record that are answered 404 although it is there.
const MISLEADING: [(&str, &str, &str); 6] = [
    ("GET", "?revision=99", ""),
    ("HEAD", "", ""),
    ("HEAD", "?revision=99", ""),
    ("GET", "", "cookie"),
    ("GET", "", "authorization"),
    ("GET", "", "x-fresh"),
];

fn request(method: &str, id: u64, query: &str, with: &str) -> Request<String> {
    let request = Request::builder().method(method).uri(format!("/users/{id}{query}"));
    let request = if with.is_empty() { request } else { request.header(with, "x=y") };
    request.body(String::new()).unwrap()
}

async fn send<S>(service: &S, request: Request<String>) -> Response<String>
where
    S: Service<Request<String>, Response = Response<String>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

async fn over(records: u64, shared: bool) -> BloomGuard {
    let builder = in_process(&Table::with(0..records), records, 1e-6).shared_absence(shared);
    let guard = builder.build().unwrap();
    guard.ready().await;
    guard
}

#[tokio::test]
async fn what_misleads_hides_the_record_from_nobody() {
    for (method, query, with) in MISLEADING {
        let guard = over(10, false).await;
        let service = guard.layer(tower::service_fn(show));
        let misled = send(&service, request(method, 7, query, with)).await;
        assert_eq!(misled.status(), StatusCode::NOT_FOUND);
        assert!(misled.extensions().get::<Rejected>().is_none(), "it reached the handler");
        let answer = send(&service, request("GET", 7, "", "")).await;
        assert_eq!(answer.body(), "handled", "after {method} {query} {with}");
        assert_eq!(answer.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_query_teaches_no_null_where_an_absence_is_the_same_for_all_either() {
    let guard = over(10, true).await;
    let service = guard.layer(tower::service_fn(show));
    send(&service, request("GET", 7, "?revision=99", "cookie")).await;
    assert_eq!(send(&service, request("GET", 7, "", "")).await.status(), StatusCode::OK);
}

/// Records that were not asked for lately, and one request for each by someone who wants them hidden.
#[tokio::test]
async fn eight_hundred_cold_records_cannot_be_hidden_by_a_query_each() {
    let guard = over(800, false).await;
    let service = guard.layer(tower::service_fn(show));
    for id in 0..800 {
        send(&service, request("GET", id, "?revision=99", "")).await;
    }
    let mut refused = 0;
    for id in 0..800 {
        let answer = send(&service, request("GET", id, "", "")).await;
        refused += u32::from(answer.status() == StatusCode::NOT_FOUND);
    }
    assert_eq!(refused, 0);
    assert_eq!(guard.stats().nulls_stored, 0);
}
