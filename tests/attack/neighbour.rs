//! A tenant and a neighbour: requests that are answered 404 for a record of another tenant take nothing from its owner,
//! where the application requires the marker and marks what is really missing.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Missing, NegativeCaching};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use support::flood::{LATENCY, every_ms};
use support::model::{Table, in_process, ready};
use tokio::time::sleep;
use tower::{Layer, ServiceExt};

/// A null's life.
const TTL: Duration = Duration::from_secs(10);
const SECONDS: u64 = 60;
const IDS: u64 = 100_000;
/// The record that its owner asks for, once a second.
const HOT: u64 = 7;
/// As many records of the owner that nobody has found, and as many that were deleted.
const OTHERS: u64 = 1_000;

/// How the neighbour asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Cookies,
    Authorization,
    Queries,
    Head,
}

const WAYS: [Way; 4] = [Way::Cookies, Way::Authorization, Way::Queries, Way::Head];

/// All records are one tenant's. The handler marks 404s for what does not exist, and no others.
struct Tenants {
    table: Table,
    guard: BloomGuard,
    /// The owner's requests that were served.
    served: AtomicU64,
    /// Those that were answered 503.
    busy: AtomicU64,
    /// Handler calls for ids that do not exist.
    absent: AtomicU64,
}

impl Tenants {
    async fn new(require_marker: bool) -> Arc<Self> {
        let table = Table::with(0..IDS);
        let caching = NegativeCaching::new().ttl(TTL).require_marker(require_marker);
        let guard = in_process(&table, IDS, 0.01).negative_caching(caching).build().unwrap();
        ready(&guard).await;
        (0..OTHERS).for_each(|n| table.delete(deleted(n)));
        let [served, busy, absent] = [0; 3].map(AtomicU64::new);
        Arc::new(Self { table, guard, served, busy, absent })
    }

    async fn ask(self: Arc<Self>, request: Request<String>) {
        let owner = owns(request.headers());
        let site = Arc::clone(&self);
        let handler = tower::service_fn(move |request: Request<String>| {
            let id = request.uri().path().rsplit('/').next().unwrap().parse().unwrap();
            let there = site.table.look_up(id);
            site.absent.fetch_add(u64::from(!there), Ordering::Relaxed);
            async move {
                sleep(Duration::from_millis(LATENCY)).await;
                let mut response = Response::new(String::new());
                if !there {
                    response.extensions_mut().insert(Missing);
                }
                if !there || !owns(request.headers()) {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                Ok::<_, Infallible>(response)
            }
        });
        let status = self.guard.layer(handler).oneshot(request).await.unwrap().status();
        match status {
            _ if !owner => assert_ne!(status, StatusCode::OK, "a neighbour reads nothing"),
            StatusCode::OK => drop(self.served.fetch_add(1, Ordering::Relaxed)),
            StatusCode::SERVICE_UNAVAILABLE => drop(self.busy.fetch_add(1, Ordering::Relaxed)),
            status => panic!("{status} for the owner"),
        }
    }

    /// The neighbour sends four times what the lane bears: a fourth of it for the owner's record, a half for others of
    /// the owner's, which fill the lane, and a fourth for what was deleted.
    async fn flood(self: &Arc<Self>, way: Way) {
        Arc::clone(self).ask(by_owner()).await;
        every_ms(SECONDS * 1_000, |ms| {
            let ask = |request| Arc::clone(self).ask(request);
            let ids = match ms % 2 {
                0 => [HOT, IDS - 1 - ms % OTHERS],
                _ => [deleted(ms / 2), IDS - 1 - ms % OTHERS],
            };
            let mut asked = Vec::from(ids.map(|id| ask(by_neighbour(way, id, ms))));
            if ms % 1_000 == 500 {
                asked.push(ask(by_owner()));
            }
            asked
        })
        .await;
    }
}

fn deleted(n: u64) -> u64 {
    1_000 + n % OTHERS
}

fn owns(headers: &HeaderMap) -> bool {
    headers.get("cookie").is_some_and(|cookie| cookie == "owner")
}

fn by_owner() -> Request<String> {
    let request = Request::get(format!("/users/{HOT}")).header("cookie", "owner");
    request.body(String::new()).unwrap()
}

fn by_neighbour(way: Way, id: u64, number: u64) -> Request<String> {
    let request = match way {
        Way::Cookies => Request::get(format!("/users/{id}")).header("cookie", "neighbour"),
        Way::Authorization => {
            Request::get(format!("/users/{id}")).header("authorization", "Bearer neighbour")
        }
        Way::Queries => Request::get(format!("/users/{id}?page={number}")),
        Way::Head => Request::builder().method(Method::HEAD).uri(format!("/users/{id}")),
    };
    request.body(String::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_neighbours_404s_take_nothing_from_an_owner_where_the_marker_is_required() {
    for way in WAYS {
        let tenants = Tenants::new(true).await;
        tenants.flood(way).await;
        let served = tenants.served.load(Ordering::Relaxed) - 1;
        let absent = tenants.absent.load(Ordering::Relaxed);
        assert_eq!(served, SECONDS, "{way:?}");
        // Once in a null's life, which is a tenth shorter at the least. No null comes of a HEAD: its ids keep to the lane.
        let lives = (SECONDS as f64 / (0.9 * TTL.as_secs_f64())).floor();
        let lane = if way == Way::Head { 64.0 + 500.0 * SECONDS as f64 } else { 0.0 };
        let bound = (OTHERS + 2 * LATENCY) as f64 * (1.0 + lives) + lane;
        assert!(absent as f64 <= bound, "{way:?}: {absent} handler calls, bound {bound}");
        assert!(absent > 0, "a flood that reaches nothing proves nothing");
    }
}

/// The scene of the test above, so that it can fail.
#[tokio::test(start_paused = true)]
async fn without_the_marker_the_same_404s_make_the_owner_wait() {
    let tenants = Tenants::new(false).await;
    tenants.flood(Way::Cookies).await;
    let (served, busy) = (&tenants.served, &tenants.busy);
    let (served, busy) = (served.load(Ordering::Relaxed) - 1, busy.load(Ordering::Relaxed));
    assert_eq!(served + busy, SECONDS);
    assert!(busy > SECONDS / 4, "{busy}");
}
