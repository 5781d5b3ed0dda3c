//! What an attacker can make the database do.
//!
//! With R requests a second, a false-positive rate f, nulls that last t and rebuilds every T, handlers
//! are called for absent ids at most R·f·(1 + T/t) times a second; where no null may be kept, at most
//! as often as the lane admits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::BloomGuard;
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{
    Strangers, Table, guard_over, handler, in_process, live, ready, while_the_clock_stands,
};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::advance;
use tower::{Layer, Service, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);
/// Existing ids, which is what the filters are sized for.
const IDS: u64 = 100_000;
/// How far above the bound chance may carry a measurement.
const SLACK: f64 = 1.5;

/// Sends one GET; returns its status and whether a handler was called for it.
async fn probe(guard: &BloomGuard, table: &Table, id: u64) -> (StatusCode, bool) {
    let before = table.lookups();
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    let response = guard.layer(handler(table)).oneshot(request).await.unwrap();
    (response.status(), table.lookups() > before)
}

async fn distinct_ids(name: &str, guard: &BloomGuard, table: &Table, rate: f64, requests: u64) {
    for id in Strangers(1).take(requests as usize) {
        probe(guard, table, id).await;
    }
    let bound = requests as f64 * rate;
    let calls = table.lookups() as f64;
    println!("attack: {requests} distinct ids, {name}: {calls} handler calls, bound {bound:.0}");
    assert!(calls <= SLACK * bound, "{calls} calls, bound {bound}");
    assert!(calls > 0.0, "an attack that reaches nothing proves nothing");
}

#[tokio::test]
async fn distinct_random_ids_reach_the_handler_at_the_filters_rate() {
    let table = Table::with(0..IDS);
    let guard = in_process(&table, IDS, 0.01).build().unwrap();
    guard.ready().await;
    distinct_ids("in process", &guard, &table, 0.01, 500_000).await;
}

#[tokio::test]
async fn distinct_random_ids_reach_the_handler_at_the_filters_rate_through_redis() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = guard_over(&redis.url(), &table).capacity(IDS, 0.01).build().unwrap();
    live(&guard).await;
    distinct_ids("redis", &guard, &table, 0.01, 50_000).await;
}

/// The best an attacker can do: look for false positives, and ask for each again as soon as its null
/// has ended, until a rebuild takes them all away.
#[tokio::test(start_paused = true)]
async fn learnt_false_positives_are_worth_what_the_bound_says_and_die_with_their_generation() {
    const REQUESTS: u64 = 500;
    const TTL: u64 = 30;
    const PERIOD: u64 = 600;
    const GENERATIONS: u64 = 3;
    let rate = 0.01;
    let table = Table::with(0..IDS);
    let guard =
        in_process(&table, IDS, rate).negative_ttl(Duration::from_secs(TTL)).build().unwrap();
    ready(&guard).await;

    let mut strangers = Strangers(2);
    let mut learnt: Vec<(u64, u64)> = Vec::new();
    for generation in 0..GENERATIONS {
        let (mut survivors, replayed) = (0, learnt.len() as u64);
        for (id, again) in &mut learnt {
            *again = u64::MAX;
            survivors += u64::from(probe(&guard, &table, *id).await.1);
        }
        if generation > 0 {
            let chance = replayed as f64 * rate;
            println!("attack: {survivors} of {replayed} false positives outlived a rebuild");
            assert!((survivors as f64) < 2.0 * chance + 10.0, "{survivors} of {replayed}");
        }
        learnt.clear();

        let (calls, began) = (table.lookups(), generation * PERIOD);
        for second in began..began + PERIOD {
            // Nulls are spread by a tenth: this is when the attacker can be sure of them.
            let ended = |again: u64| again <= second;
            let mut left = REQUESTS;
            for (id, again) in learnt.iter_mut().filter(|(_, again)| ended(*again)) {
                if left == 0 {
                    break;
                }
                left -= 1;
                probe(&guard, &table, *id).await;
                *again = second + TTL + TTL / 10;
            }
            for id in strangers.by_ref().take(left as usize) {
                if probe(&guard, &table, id).await.1 {
                    learnt.push((id, second + TTL + TTL / 10));
                }
            }
            advance(SECOND).await;
        }
        let calls = (table.lookups() - calls) as f64 / PERIOD as f64;
        let bound = REQUESTS as f64 * rate * (1.0 + PERIOD as f64 / TTL as f64);
        println!(
            "attack: {} learnt false positives replayed, generation {generation}: \
             {calls:.1} handler calls/s, bound {bound:.1}",
            learnt.len(),
        );
        assert!(calls <= SLACK * bound, "{calls} calls a second, bound {bound}");
        assert!(calls > 2.0 * REQUESTS as f64 * rate, "the replay must add something");
        while_the_clock_stands(guard.rebuild_now()).await.unwrap();
    }
}

/// Many at once, for one id that passes the filter and is missing.
#[tokio::test]
async fn a_flood_of_one_id_reaches_the_handler_once_a_null() {
    const CLIENTS: u64 = 64;
    const REQUESTS: u64 = 200_000;
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
                assert_eq!(probe(&guard, &table, 7).await.0, StatusCode::NOT_FOUND);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let calls = table.lookups();
    println!("attack: {REQUESTS} requests for one id by {CLIENTS} at once: {calls} handler calls");
    // One null of 30 s; those who asked before it was there were at most one per client.
    assert!(calls <= CLIENTS + CLIENTS / 2, "{calls}");
}

/// What no null may be learnt from, because each request shows credentials, worthless as they are.
#[tokio::test(start_paused = true)]
async fn learnt_false_positives_with_junk_credentials_are_held_to_the_lane() {
    let rate = 0.01;
    let table = Table::with(0..IDS);
    let guard = in_process(&table, IDS, rate).build().unwrap();
    ready(&guard).await;
    let mut known = Vec::new();
    for id in Strangers(3).take(100_000) {
        if probe(&guard, &table, id).await.1 {
            known.push(id);
        }
    }
    advance(60 * SECOND).await;
    let service = guard.layer(handler(&table));
    let before = table.lookups();
    let seconds = 20;
    for n in 0..seconds * 10_000 {
        let id = known[n as usize % known.len()];
        let uri = format!("/users/{id}");
        let request = Request::get(uri).header("cookie", format!("a={n}")).body(String::new());
        let status = service.clone().oneshot(request.unwrap()).await.unwrap().status();
        assert!(status == StatusCode::NOT_FOUND || status == StatusCode::SERVICE_UNAVAILABLE);
        advance(Duration::from_micros(100)).await;
    }
    let calls = table.lookups() - before;
    // Each id once before it is known to be missing, then the lane.
    let bound = known.len() as u64 + 64 + 500 * seconds;
    println!(
        "attack: {} false positives replayed with cookies, {} requests in {seconds} s: {calls} handler calls, bound {bound}",
        known.len(),
        seconds * 10_000,
    );
    assert!(calls as f64 <= SLACK * bound as f64, "{calls} calls, bound {bound}");
}

/// Redis is away, and the attacker's requests take as long as he likes.
#[tokio::test]
async fn a_slow_loris_in_the_lane_stops_no_id_that_was_found_lately() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).on_unknown(Default::default()).build().unwrap();
    live(&guard).await;
    let gauge = Gauge::default();
    let service = guard.layer(slow_for_strangers(&table, &gauge));
    for id in 0..500 {
        assert_eq!(ask(&service, id).await, StatusCode::OK);
    }
    redis.kill();
    eventually("redis is missed", 10 * SECOND, || async {
        let doubt = guard.check(&1).await.unwrap();
        matches!(doubt, bloom_guard::Verdict::Unknown(_)).then_some(()).ok_or(format!("{doubt:?}"))
    })
    .await;

    let mut attackers = JoinSet::new();
    for id in Strangers(4).take(2_000) {
        let service = service.clone();
        attackers.spawn(async move { ask(&service, id).await });
    }
    eventually("the lane is full of them", 10 * SECOND, || async {
        let inside = gauge.inside.load(Ordering::SeqCst);
        if inside == 64 { Ok(()) } else { Err(inside.to_string()) }
    })
    .await;
    for id in 0..500 {
        assert_eq!(ask(&service, id).await, StatusCode::OK, "{id} was found lately");
    }
    for id in 500..1_000 {
        assert_eq!(ask(&service, id).await, StatusCode::SERVICE_UNAVAILABLE, "{id}: never 404");
    }
    assert_eq!(gauge.most.load(Ordering::SeqCst), 64, "no more than the lane is wide");

    attackers.shutdown().await;
    assert_eq!(gauge.inside.load(Ordering::SeqCst), 0);
    eventually("there is room again", 10 * SECOND, || async {
        match ask(&service, 700).await {
            StatusCode::OK => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
}

async fn ask<S>(service: &S, id: u64) -> StatusCode
where
    S: Service<Request<String>, Response = Response<String>, Error = std::convert::Infallible>
        + Clone,
{
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    service.clone().oneshot(request).await.unwrap().status()
}

/// How many strangers a handler is busy with.
#[derive(Clone, Default)]
struct Gauge {
    inside: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

/// One request in the handler.
struct Inside(Gauge);

impl Gauge {
    fn enter(&self) -> Inside {
        let now = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(self.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn slow_for_strangers(
    table: &Table,
    gauge: &Gauge,
) -> impl Service<
    Request<String>,
    Response = Response<String>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone
+ Send
+ use<> {
    let (table, gauge) = (table.clone(), gauge.clone());
    tower::service_fn(move |request: Request<String>| {
        let (table, gauge) = (table.clone(), gauge.clone());
        async move {
            let id = request.uri().path().rsplit('/').next().unwrap().parse().unwrap();
            if !table.look_up(id) {
                let _inside = gauge.enter();
                Semaphore::new(0).acquire().await.unwrap().forget();
            }
            Ok(Response::new(String::new()))
        }
    })
}
