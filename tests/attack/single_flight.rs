//! Of several requests for an id that nothing is known of, one goes first, and what the others get is nobody else's answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Builder, Missing, NegativeCaching};
use http::{Request, Response, StatusCode};
use support::model::{Table, guard_over, in_process, live, ready};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, ServiceExt};

const IDS: u64 = 10_000;
const CLIENTS: usize = 64;
const MAX_WAIT: Duration = Duration::from_secs(1);
const LATENCY: Duration = Duration::from_millis(20);

/// What a handler does with a request.
#[derive(Debug, Clone, Copy)]
enum Handler {
    Answers(Duration),
    Panics,
}

/// A guard, and a handler that counts its calls before it has answered for the first time.
#[derive(Clone)]
struct Site {
    guard: BloomGuard,
    table: Table,
    calls: Arc<AtomicU64>,
    before_an_answer: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Site {
    async fn new(builder: Builder, table: &Table) -> Self {
        let guard = builder.single_flight(MAX_WAIT).build().unwrap();
        ready(&guard).await;
        let [calls, before_an_answer, answered] = [0; 3].map(|n| Arc::new(AtomicU64::new(n)));
        Self { guard, table: table.clone(), calls, before_an_answer, answered }
    }

    async fn in_process(caching: NegativeCaching) -> Self {
        let table = Table::with(0..IDS);
        Self::new(in_process(&table, IDS, 0.01).negative_caching(caching), &table).await
    }

    async fn ask(self, id: u64, handler: Handler, cookie: &'static str) -> StatusCode {
        let site = self.clone();
        let service = self.guard.layer(tower::service_fn(move |request: Request<String>| {
            let site = site.clone();
            async move {
                let first = site.answered.load(Ordering::SeqCst) == 0;
                site.before_an_answer.fetch_add(u64::from(first), Ordering::SeqCst);
                let Handler::Answers(after) = handler else { panic!("as a bug does") };
                site.calls.fetch_add(1, Ordering::SeqCst);
                let found = site.table.look_up(id);
                sleep(after).await;
                site.answered.fetch_add(1, Ordering::SeqCst);
                let mut response = Response::new(String::new());
                if !found {
                    response.extensions_mut().insert(Missing);
                }
                if !found || request.headers()["cookie"] != "owner" {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                Ok::<_, Infallible>(response)
            }
        }));
        let request = Request::get(format!("/users/{id}")).header("cookie", cookie);
        service.oneshot(request.body(String::new()).unwrap()).await.unwrap().status()
    }

    /// Asks at once, from many clients; returns the statuses, and how long the slowest took.
    async fn all_ask(
        &self,
        id: u64,
        handler: Handler,
        cookie: &'static str,
    ) -> (Vec<StatusCode>, Duration) {
        let began = Instant::now();
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(self.clone().ask(id, handler, cookie));
        }
        let statuses = clients.join_all().await;
        (statuses, began.elapsed())
    }
}

#[tokio::test(start_paused = true)]
async fn a_cold_record_is_read_once_before_it_is_found_and_everybody_gets_it() {
    let site = Site::in_process(NegativeCaching::new()).await;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let site = site.clone();
        clients.spawn(async move {
            for _ in 0..10_000 / CLIENTS {
                let asked = site.clone().ask(7, Handler::Answers(LATENCY), "owner");
                assert_eq!(asked.await, StatusCode::OK);
            }
        });
    }
    clients.join_all().await;
    assert_eq!(site.before_an_answer.load(Ordering::SeqCst), 1);
    assert_eq!(site.guard.stats().waited, CLIENTS as u64 - 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_record_is_looked_up_once_and_then_refused() {
    let site = Site::in_process(NegativeCaching::new()).await;
    site.table.delete(7);
    let (statuses, _) = site.all_ask(7, Handler::Answers(LATENCY), "owner").await;
    assert!(statuses.iter().all(|status| *status == StatusCode::NOT_FOUND));
    assert_eq!(site.calls.load(Ordering::SeqCst), 1);
    assert_eq!(site.guard.stats().refused, CLIENTS as u64 - 1);
}

/// With Redis its null is on the way when the answer is there. The ids are in the copy.
#[tokio::test]
async fn with_redis_too_a_record_is_looked_up_once() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let site = Site::new(guard_over(&redis.url(), &table), &table).await;
    live(&site.guard).await;
    table.delete(7);
    for (id, status) in [(7, StatusCode::NOT_FOUND), (8, StatusCode::OK)] {
        let before = site.calls.load(Ordering::SeqCst);
        let (statuses, _) = site.all_ask(id, Handler::Answers(5 * LATENCY), "owner").await;
        assert_eq!(statuses, [status; CLIENTS]);
        assert_eq!(
            site.calls.load(Ordering::SeqCst) - before,
            if id == 7 { 1 } else { CLIENTS as u64 }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_stated_nor_is_refused_for_a_first_request_that_is_slow() {
    let site = Site::in_process(NegativeCaching::new()).await;
    let slow = Duration::from_secs(5);
    let first = tokio::spawn(site.clone().ask(7, Handler::Answers(slow), "owner"));
    sleep(LATENCY).await;
    let quick = Handler::Answers(LATENCY);
    let (statuses, took) = site.all_ask(7, quick, "owner").await;
    assert_eq!(statuses, [StatusCode::OK; CLIENTS]);
    assert_eq!(took, MAX_WAIT, "with the request that is answered then");
    let (statuses, took) = site.all_ask(7, quick, "owner").await;
    assert_eq!((statuses, took), (vec![StatusCode::OK; CLIENTS], LATENCY));
    assert_eq!(first.await.unwrap(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_first_request_that_panics_or_hangs_up_releases_the_others_to_the_lane() {
    for hangs_up in [false, true] {
        let site = Site::in_process(NegativeCaching::new()).await;
        let handler = if hangs_up { Handler::Answers(10 * MAX_WAIT) } else { Handler::Panics };
        let first = tokio::spawn(timeout(LATENCY, site.clone().ask(7, handler, "owner")));
        tokio::task::yield_now().await;
        let (statuses, took) = site.all_ask(7, Handler::Answers(LATENCY), "owner").await;
        assert_eq!(statuses, [StatusCode::OK; CLIENTS]);
        assert!(took <= 2 * LATENCY, "{took:?}");
        assert_ne!(first.await.ok().and_then(Result::ok), Some(StatusCode::OK));
    }
}

#[tokio::test(start_paused = true)]
async fn the_owner_gets_the_record_that_a_stranger_asked_for_first() {
    let site = Site::in_process(NegativeCaching::new().require_marker(true)).await;
    let stranger = tokio::spawn(site.clone().ask(7, Handler::Answers(LATENCY), "stranger"));
    tokio::task::yield_now().await;
    let owner = site.clone().ask(7, Handler::Answers(LATENCY), "owner").await;
    assert_eq!((stranger.await.unwrap(), owner), (StatusCode::NOT_FOUND, StatusCode::OK));
}
