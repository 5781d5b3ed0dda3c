//! A 404 is remembered for no more than was asked.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, PathPattern, Query, Schedule, Verdict};
use futures_util::future::join_all;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use support::model::{Strangers, Table, live};
use tower::{Layer, ServiceExt};

async fn local(table: &Table) -> BloomGuard {
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .rebuild(Schedule::manual(), table.clone())
        .build()
        .unwrap();
    live(&guard).await;
    guard
}

fn ok(status: StatusCode) -> Response<String> {
    Response::builder().status(status).body(String::new()).unwrap()
}

/// A hyper-style service: `(GET, /users/..)` is served, everything else falls to `_ => 404`.
#[tokio::test]
async fn a_head_404_must_not_hide_what_get_serves() {
    let table = Table::with([7]);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        Ok::<_, Infallible>(match (request.method(), request.uri().path()) {
            (&Method::GET, "/users/7") => ok(StatusCode::OK),
            _ => ok(StatusCode::NOT_FOUND),
        })
    }));
    let send = |method: Method| {
        let request = Request::builder().method(method).uri("/users/7").body(String::new());
        service.clone().oneshot(request.unwrap())
    };
    assert_eq!(send(Method::GET).await.unwrap().status(), 200);
    assert_eq!(send(Method::HEAD).await.unwrap().status(), 404);
    assert_eq!(send(Method::GET).await.unwrap().status(), 200, "an existing record is refused");
}

/// The same service, and a client that sends two HEADs for every GET.
#[tokio::test(start_paused = true)]
async fn a_head_404_does_not_hold_up_a_get() {
    let table = Table::with(0..40);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| {
        let id = request.uri().path().rsplit('/').next().and_then(|id| id.parse().ok());
        let found = request.method() == Method::GET && id.is_some_and(|id| table.look_up(id));
        let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
        async move { Ok::<_, Infallible>(ok(status)) }
    }));
    let send = |method: Method, id: u64| {
        let request = Request::builder().method(method).uri(format!("/users/{id}"));
        let sent = service.clone().oneshot(request.body(String::new()).unwrap());
        async move { sent.await.unwrap().status() }
    };
    for id in 0..40 {
        assert_eq!(send(Method::GET, id).await, 200);
    }
    for second in 0..100 {
        for id in 0..40 {
            assert_eq!(send(Method::HEAD, id).await, 404, "found lately, and then present");
            assert_eq!(send(Method::HEAD, id).await, 404, "by the handler");
            assert_eq!(send(Method::GET, id).await, 200, "id {id}, second {second}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let stats = guard.stats();
    assert_eq!((stats.nulls_stored, stats.refused, stats.overloaded), (0, 0, 0));
}

/// Where GET has shown that a record is missing, HEAD is no second way to have it looked up.
#[tokio::test(start_paused = true)]
async fn what_get_missed_is_looked_for_by_heads_in_the_lane() {
    let table = Table::with(0..40);
    let guard = local(&table).await;
    let calls = AtomicU64::new(0);
    let service = guard.layer(tower::service_fn(|_: Request<String>| {
        calls.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let mut personal = ok(StatusCode::NOT_FOUND);
            personal.headers_mut().insert("cache-control", HeaderValue::from_static("private"));
            Ok::<_, Infallible>(personal)
        }
    }));
    let send = |method: Method| {
        let request = Request::builder().method(method).uri("/users/7").body(String::new());
        let sent = service.clone().oneshot(request.unwrap());
        async move { sent.await.unwrap().status() }
    };
    assert_eq!(send(Method::GET).await, 404);
    let heads = join_all((0..100).map(|_| send(Method::HEAD))).await;
    assert_eq!(heads.iter().filter(|status| **status == 503).count(), 100 - 64);
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 64);
}

/// GitHub-style privacy: who may not see a record gets 404. An anonymous request must not hide the
/// record from its owner.
#[tokio::test]
async fn an_anonymous_404_must_not_hide_the_record_from_its_owner() {
    let table = Table::with([7]);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let owner = request.headers().contains_key("authorization");
        Ok::<_, Infallible>(ok(if owner { StatusCode::OK } else { StatusCode::NOT_FOUND }))
    }));
    let owner = || {
        Request::get("/users/7").header("authorization", "Bearer x").body(String::new()).unwrap()
    };
    let anonymous = Request::get("/users/7").body(String::new()).unwrap();
    assert_eq!(service.clone().oneshot(owner()).await.unwrap().status(), 200);
    assert_eq!(service.clone().oneshot(anonymous).await.unwrap().status(), 404);
    assert_eq!(service.clone().oneshot(owner()).await.unwrap().status(), 200, "owner is refused");
}

#[tokio::test]
async fn vary_is_honoured() {
    let table = Table::with([7]);
    let guard = local(&table).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let mine = request.headers().get("x-api-key").is_some_and(|key| key == "owner");
        let mut response = ok(if mine { StatusCode::OK } else { StatusCode::NOT_FOUND });
        response.headers_mut().insert("vary", "x-api-key".parse().unwrap());
        Ok::<_, Infallible>(response)
    }));
    let request =
        |key: &str| Request::get("/users/7").header("x-api-key", key).body(String::new()).unwrap();
    assert_eq!(service.clone().oneshot(request("other")).await.unwrap().status(), 404);
    assert_eq!(service.clone().oneshot(request("owner")).await.unwrap().status(), 200);
}

/// Whether the handler's 404 with these headers answers the next request for the same id too.
async fn remembered(headers: &'static [(&'static str, &'static str)]) -> bool {
    let guard = local(&Table::with([7])).await;
    let service = guard.layer(tower::service_fn(move |_: Request<String>| async move {
        let mut response = ok(StatusCode::NOT_FOUND);
        for (name, value) in headers {
            response.headers_mut().append(*name, value.parse().unwrap());
        }
        Ok::<_, Infallible>(response)
    }));
    for _ in 0..2 {
        let request = Request::get("/users/7").body(String::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 404);
    }
    guard.stats().absent_by_null == 1
}

#[tokio::test]
async fn a_404_that_is_over_is_not_remembered() {
    assert!(remembered(&[("expires", "Fri, 31 Dec 9999 23:59:59 GMT")]).await);
    assert!(remembered(&[("cache-control", "max-age=60"), ("age", "20")]).await);
    assert!(!remembered(&[("expires", "0")]).await);
    assert!(!remembered(&[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")]).await);
    assert!(!remembered(&[("cache-control", "max-age=60"), ("age", "60")]).await);
}

/// `Router::layer` also wraps the fallback: any path has an id under `Query`.
#[tokio::test]
async fn a_404_of_an_unmatched_route_is_no_null() {
    use axum::{Router, routing};
    let table = Table::with([7]);
    let guard = BloomGuard::builder("users", Query::<u64>::new("user"))
        .in_process()
        .rebuild(Schedule::manual(), table.clone())
        .build()
        .unwrap();
    live(&guard).await;
    let app: Router =
        Router::new().route("/posts", routing::get(|| async { "posts" })).layer(guard.clone());
    let send = |target: &str| {
        let request = Request::get(target).body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request)
    };
    assert_eq!(send("/posts?user=7").await.unwrap().status(), 200);
    assert_eq!(send("/nowhere?user=7").await.unwrap().status(), 404);
    assert_eq!(send("/posts?user=7").await.unwrap().status(), 200, "an existing user is refused");
}

/// One layer over several routes, as `Captures` advertises.
#[tokio::test]
async fn a_404_of_a_subresource_is_no_null_of_the_resource() {
    use axum::{Router, routing};
    let table = Table::with([7]);
    let guard = BloomGuard::builder("users", bloom_guard::Captures::<u64>::new("id"))
        .in_process()
        .rebuild(Schedule::manual(), table.clone())
        .build()
        .unwrap();
    live(&guard).await;
    let app: Router = Router::new()
        .route("/users/{id}", routing::get(|| async { "user" }))
        .route("/users/{id}/avatar", routing::get(|| async { StatusCode::NOT_FOUND }))
        .layer(guard.clone());
    let send = |target: &str| {
        let request = Request::get(target).body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request)
    };
    assert_eq!(send("/users/7").await.unwrap().status(), 200);
    assert_eq!(send("/users/7/avatar").await.unwrap().status(), 404);
    assert_eq!(send("/users/7").await.unwrap().status(), 200, "an existing user is refused");
}

/// A private record, which only its owner is shown; a job asks on behalf of the owner.
#[tokio::test]
async fn what_one_caller_was_told_is_no_proof_to_who_checks_by_hand() {
    let guard = local(&Table::with([7, 8])).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let owner = request.headers().contains_key("authorization");
        let public = request.uri().path().ends_with('8') && request.method() == Method::GET;
        Ok::<_, Infallible>(ok(if owner || public {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        }))
    }));
    for (method, id) in [(Method::GET, 7), (Method::HEAD, 8)] {
        let request = Request::builder().method(method).uri(format!("/users/{id}"));
        let request = request.body(String::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 404);
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "record {id} exists");
    }
    assert_eq!(guard.stats().nulls_stored, 1, "that of the GET");
}

/// Idempotent, as deletions should be.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_succeeds_shows_no_record() {
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .methods([Method::GET, Method::HEAD, Method::DELETE])
        .rebuild(Schedule::manual(), Table::with(0..1_000))
        .build()
        .unwrap();
    live(&guard).await;
    let service = guard.layer(tower::service_fn(|_: Request<String>| async {
        Ok::<_, Infallible>(ok(StatusCode::NO_CONTENT))
    }));
    for id in Strangers(7).take(100) {
        let request = Request::delete(format!("/users/{id}")).body(String::new()).unwrap();
        service.clone().oneshot(request).await.unwrap();
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let stats = guard.stats();
    assert!(stats.refused >= 90, "but for a sample: {stats:?}");
    assert_eq!((stats.admitted_found, stats.false_negatives), (0, 0));
    assert!(guard.state().is_ready());
}

/// A revision that there is not, of a record that there is.
#[tokio::test(start_paused = true)]
async fn a_missing_part_of_a_record_hides_it_from_nobody() {
    let guard = local(&Table::with(0..10)).await;
    let service = guard.layer(tower::service_fn(|request: Request<String>| async move {
        let missing = request.uri().query() == Some("rev=99");
        Ok::<_, Infallible>(ok(if missing { StatusCode::NOT_FOUND } else { StatusCode::OK }))
    }));
    let get = |path: &str| {
        let request = Request::get(path).body(String::new()).unwrap();
        let sent = service.clone().oneshot(request);
        async move { sent.await.unwrap().status() }
    };
    assert_eq!(get("/users/7?rev=99").await, 404);
    for _ in 0..100 {
        assert_eq!(get("/users/7").await, 200);
        assert_eq!(get("/users/7?rev=99").await, 404);
    }
    assert_eq!(guard.check(&7).await.unwrap(), Verdict::Present);
    // It is no way to make the handler work, either: a thousand at one moment.
    for _ in 0..1_000 {
        assert_ne!(get("/users/7?rev=99").await, 200);
    }
    let stats = guard.stats();
    assert!(stats.overloaded > 900 && stats.nulls_stored == 0, "{stats:?}");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(get("/users/7?lang=en").await, 200);
    assert_eq!(get("/users/7?lang=en").await, 200);
}
