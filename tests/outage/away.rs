//! A while without Redis, under traffic that is nearly all for ids that do not exist.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, OnUnknown, Verdict};
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use support::eventually;
use support::flood::every_ms;
use support::model::{Strangers, Table, guard_over, inserted, live};
use support::redis_server::RedisServer;
use tokio::time::sleep;
use tower::{Layer, ServiceExt};

use super::seconds;

/// The lane is so narrow, and the handler so slow, that it is full all the time.
const LANE: u64 = 8;
const HANDLER: Duration = Duration::from_millis(50);
/// Ids that were found before, and ids that exist, more than are asked for: none of them twice.
const KNOWN: u64 = 100;
const ROWS: u64 = 100_000;

/// A service, with how many requests its handler has that are not for known ids: now, and at most.
struct Service {
    guard: BloomGuard,
    table: Table,
    inside: AtomicU64,
    most: AtomicU64,
    busy: AtomicU64,
}

impl Service {
    async fn handle(&self, id: u64) -> StatusCode {
        if id >= KNOWN {
            self.most.fetch_max(self.inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(HANDLER).await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
        if self.table.look_up(id) { StatusCode::OK } else { StatusCode::NOT_FOUND }
    }

    /// Sends a request and judges the answer.
    async fn visit(self: Arc<Self>, id: u64) {
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        let here = Arc::clone(&self);
        let handler = tower::service_fn(move |_: Request<String>| {
            let here = Arc::clone(&here);
            async move {
                let status = here.handle(id).await;
                let response = Response::builder().status(status).body(String::new());
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        let response = self.guard.layer(handler).oneshot(request).await.unwrap();
        let right = match response.status() {
            StatusCode::SERVICE_UNAVAILABLE => {
                self.busy.fetch_add(1, Ordering::SeqCst);
                id >= KNOWN && response.headers().contains_key(RETRY_AFTER)
            }
            StatusCode::NOT_FOUND => id >= ROWS,
            status => status == StatusCode::OK && id < ROWS,
        };
        assert!(right, "{id}: {response:?}");
    }
}

async fn outage(stop: impl FnOnce(&mut RedisServer), start: impl FnOnce(&mut RedisServer)) {
    let mut redis = RedisServer::start();
    let table = Table::with(0..ROWS);
    // Without copies: it is about what nobody has found.
    let builder = guard_over(&redis.url(), &table).on_unknown(OnUnknown::PassLimited);
    let guard = builder.lane(LANE as u32, 100_000).build().unwrap();
    live(&guard).await;
    let [inside, most, busy] = [0; 3].map(AtomicU64::new);
    let service = Arc::new(Service { guard, table, inside, most, busy });
    for id in 0..KNOWN {
        Arc::clone(&service).visit(id).await;
    }
    stop(&mut redis);
    eventually("nothing is known", Duration::from_secs(10), || async {
        match service.guard.check(&u64::MAX).await.unwrap() {
            Verdict::Unknown(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let mut strangers = Strangers(1);
    every_ms(seconds().as_millis() as u64, |ms| {
        // One in twenty was found before, one exists.
        let id = match ms % 20 {
            0 => ms % KNOWN,
            1 => KNOWN + ms % (ROWS - KNOWN),
            _ => strangers.next().unwrap(),
        };
        vec![Arc::clone(&service).visit(id)]
    })
    .await;
    assert!(service.guard.insert(&9_999).await.is_err(), "nothing is acknowledged");
    let (most, busy) = (&service.most, &service.busy);
    let (most, busy) = (most.load(Ordering::SeqCst), busy.load(Ordering::SeqCst));
    assert_eq!(most, LANE, "unverified requests with the handler at once; {busy} answered 503");
    assert!(busy > 0, "the lane was not put to the test");
    start(&mut redis);
    live(&service.guard).await;
    inserted(&service.guard, [9_999]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_redis_costs_no_record_and_no_more_than_the_lane() {
    outage(RedisServer::kill, RedisServer::restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_no_record_and_no_more_than_the_lane() {
    outage(|redis| redis.pause(), |redis| redis.resume()).await;
}
