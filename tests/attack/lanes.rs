//! What an attacker can do by many requests at once, or with ids of which no null can be kept.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use support::model::{Table, get, guard_over, in_process, live, ready};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;
use tokio::time::advance;
use tower::{Layer, Service, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);
/// Existing ids, which is what the filters are sized for.
const IDS: u64 = 100_000;

/// Many at once, for one id that passes the filter and is missing.
#[tokio::test]
async fn a_flood_of_one_id_reaches_the_handler_once_a_null() {
    const CLIENTS: u64 = 64;
    const REQUESTS: u64 = 20_000;
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    table.delete(7);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (guard, table) = (guard.clone(), table.clone());
        clients.spawn(async move {
            for _ in 0..REQUESTS / CLIENTS {
                assert_eq!(get(&guard, &table, 7).await, StatusCode::NOT_FOUND);
            }
        });
    }
    clients.join_all().await;
    let calls = table.lookups();
    // One null of 30 s; those who asked before it was there were at most one per client.
    assert!(calls <= CLIENTS + CLIENTS / 2, "{calls}");
}

fn request(id: u64, cookie: Option<&str>) -> Request<String> {
    let mut request = Request::get(format!("/users/{id}"));
    if let Some(cookie) = cookie {
        request = request.header("cookie", cookie);
    }
    request.body(String::new()).unwrap()
}

async fn ask<S>(service: &S, id: u64, cookie: Option<&str>) -> StatusCode
where
    S: Service<Request<String>, Response = Response<String>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request(id, cookie)).await.unwrap().status()
}

/// The owner's cookie is good for all records, the attacker's for none.
fn private(
    table: &Table,
) -> impl Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ use<> {
    let table = table.clone();
    tower::service_fn(move |request: Request<String>| {
        let table = table.clone();
        async move {
            let id: u64 = request.uri().path().rsplit('/').next().unwrap().parse().unwrap();
            let owns = request.headers().get("cookie").is_some_and(|c| c == "owner");
            let status = if table.look_up(id) && owns { 200 } else { 404 };
            Ok(Response::builder().status(status).body(String::new()).unwrap())
        }
    })
}

/// Strangers ask for 20,000 private records, again and again, and fill the lane.
#[tokio::test(start_paused = true)]
async fn an_attacker_who_fills_the_lane_touches_nothing_that_was_found_lately() {
    const PRIVATE: u64 = 20_000;
    let table = Table::with(0..IDS);
    let guard = in_process(&table, IDS, 1e-6).build().unwrap();
    ready(&guard).await;
    let service = guard.layer(private(&table));
    // Records that no stranger asks for.
    for id in PRIVATE..PRIVATE + 100 {
        assert_eq!(ask(&service, id, Some("owner")).await, StatusCode::OK);
    }
    for id in 0..PRIVATE {
        ask(&service, id, Some("junk")).await;
    }
    let (mut busy, mut visits) = (0, 0);
    for n in 0..100_000_u64 {
        ask(&service, n % PRIVATE, Some("junk")).await;
        if n % 100 == 0 {
            let found_lately = PRIVATE + n / 100 % 100;
            assert_eq!(ask(&service, found_lately, Some("owner")).await, StatusCode::OK);
            visits += 1;
            let status = ask(&service, (n + 50) % PRIVATE, Some("owner")).await;
            assert_ne!(status, StatusCode::NOT_FOUND, "its owner is never told so");
            busy += u64::from(status == StatusCode::SERVICE_UNAVAILABLE);
        }
        advance(Duration::from_micros(100)).await;
    }
    assert!(busy < visits, "{busy} of {visits} owners' requests for what strangers missed");
    // For less than two lives of a null.
    advance(60 * SECOND).await;
    for id in 0..PRIVATE {
        assert_eq!(ask(&service, id, Some("owner")).await, StatusCode::OK, "{id}");
    }
}

/// A false positive whose look-up is more than the database bears.
#[tokio::test(start_paused = true)]
async fn a_look_up_that_fails_is_not_repeated_without_bound() {
    // A service that ends its request, and statuses of layers that do.
    for status in [None, Some(504), Some(408)] {
        let table = Table::with(0..IDS);
        let guard = in_process(&table, IDS, 0.01).build().unwrap();
        ready(&guard).await;
        table.delete(7);
        let lookups = Arc::new(AtomicU64::new(0));
        let service = guard.layer(tower::service_fn({
            let lookups = Arc::clone(&lookups);
            move |_: Request<String>| {
                lookups.fetch_add(1, Ordering::SeqCst);
                let response = Response::builder().status(status.unwrap_or(200));
                let response = response.body(String::new()).unwrap();
                async move { if status.is_some() { Ok(response) } else { Err("timed out") } }
            }
        }));
        let seconds = 20;
        for _ in 0..seconds * 1_000 {
            let _failed = service.clone().oneshot(request(7, None)).await;
            advance(Duration::from_millis(1)).await;
        }
        let (calls, bound) = (lookups.load(Ordering::SeqCst), 1 + 64 + 500 * seconds);
        assert!(calls <= bound, "{status:?}: {calls} look-ups in {seconds} s, bound {bound}");
        assert!(calls > 0);
    }
}
