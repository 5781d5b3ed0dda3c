//! What a request costs, for a profiler: 100,000 requests of one kind and nothing else.
//!
//! `cargo bench -p bloom-guard-tests --bench local -- found` (or `absent`, `present`, `bare`, and `redis`: absent there) says how long they
//! take; `README.md` beside this says how to count their instructions.

use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use http::{Request, Response, StatusCode, Uri};
use support::redis_server::RedisServer;
use tower::{Layer, Service, ServiceExt};

const IDS: u64 = 1_000_000;
const REQUESTS: usize = 100_000;

/// The part to measure.
#[inline(never)]
async fn send_all<S>(mut service: S, uris: &[Uri])
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible>,
{
    for uri in uris.iter().cycle().take(REQUESTS) {
        let mut request = Request::new(());
        *request.uri_mut() = uri.clone();
        let Ok(service) = service.ready().await;
        let Ok(response) = service.call(request).await;
        black_box(response);
    }
}

fn uris(ids: Range<u64>) -> Vec<Uri> {
    ids.map(|id| format!("/users/{id}").parse().expect("a path")).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let redis = (which == "redis").then(RedisServer::start);
    let builder =
        BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
            .capacity(IDS, 0.001)
            .audits_per_second(0)
            .rebuild(Schedule::manual(), from_iter(|| 0..IDS));
    let builder = match &redis {
        Some(redis) => builder.redis(&redis.url()).settle(Duration::ZERO),
        None => builder.in_process(),
    };
    let guard = builder.build().expect("valid");
    guard.ready().await;
    let answer = |status| {
        tower::service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(String::new());
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        })
    };
    let found = answer(StatusCode::OK);
    // Says nothing of the record, so that its id stays one that has to be looked up.
    let silent = answer(StatusCode::FORBIDDEN);
    let [existing, others, absent] = [0, 1_000, IDS].map(|first| uris(first..first + 1_000));
    for uri in &existing {
        let request = Request::get(uri).body(()).expect("a request");
        let Ok(_) = guard.layer(found).oneshot(request).await;
    }
    let begun = Instant::now();
    match &*which {
        "bare" => send_all(found, &existing).await,
        "found" => send_all(guard.layer(found), &existing).await,
        "present" => send_all(guard.layer(silent), &others).await,
        "absent" | "redis" => send_all(guard.layer(found), &absent).await,
        _ => return println!("bare, found, present, absent or redis?"),
    }
    println!("{which}: {:.0} ns a request", begun.elapsed().as_secs_f64() * 1e9 / REQUESTS as f64);
}
