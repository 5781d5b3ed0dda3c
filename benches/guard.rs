//! What the guard costs a request: a check, the middleware beside the bare service.
//!
//! `cargo bench -p bloom-guard-tests --bench guard`. Compare only figures of one run.

#![expect(missing_docs, reason = "the harness's macro makes an undocumented function")]

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use http::{Request, Response, StatusCode};
use support::redis_server::RedisServer;
use tokio::runtime::Runtime;
use tower::{Layer, Service, ServiceExt};

const IDS: u64 = 1_000_000;
const RATE: f64 = 0.001;
/// Checks under way together, where many are.
const AT_ONCE: u64 = 64;

fn guard(builder: bloom_guard::Builder, runtime: &Runtime) -> BloomGuard {
    runtime.block_on(async {
        let guard =
            builder.rebuild(Schedule::manual(), from_iter(|| 0..IDS)).build().expect("valid");
        guard.ready().await;
        guard
    })
}

fn builder() -> bloom_guard::Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
        .capacity(IDS, RATE)
}

fn check(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let redis = RedisServer::start();
    let in_redis = builder().redis(&redis.url()).settle(Duration::ZERO);
    let guards = [
        ("in process", guard(builder().in_process(), &runtime)),
        ("redis", guard(in_redis, &runtime)),
    ];
    for (store, guard) in &guards {
        let mut group = c.benchmark_group(format!("check, {store}"));
        for (name, first) in [("present", 0), ("absent", IDS)] {
            let mut ids = (first..first + IDS).cycle();
            group.bench_function(name, |b| {
                b.to_async(&runtime).iter(|| {
                    let id = ids.next().expect("endless");
                    async move { guard.check(&id).await }
                });
            });
        }
        group.throughput(Throughput::Elements(AT_ONCE));
        group.bench_function("absent, many at once", |b| {
            let mut ids = (IDS..2 * IDS).cycle();
            b.to_async(&runtime).iter(|| {
                let ids: Vec<u64> = ids.by_ref().take(AT_ONCE as usize).collect();
                async move { join_all(ids.iter().map(|id| guard.check(id))).await }
            });
        });
        group.finish();
    }
}

fn middleware(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let guard = guard(builder().in_process(), &runtime);
    let handler = tower::service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let mut group = c.benchmark_group("middleware, in process");
    group.measurement_time(Duration::from_secs(5));
    bench_service(&mut group, "bare service", handler, 0);
    // An answer that says nothing of the record: its id stays one that has to be looked up.
    let silent = tower::service_fn(|_: Request<()>| async {
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::FORBIDDEN;
        Ok::<_, Infallible>(response)
    });
    bench_service(&mut group, "guarded, present", guard.layer(silent), 0);
    for id in 0..IDS {
        let request = Request::get(format!("/users/{id}")).body(()).expect("a request");
        poll_once(guard.layer(handler).oneshot(request)).expect("never fails");
    }
    bench_service(&mut group, "guarded, found lately", guard.layer(handler), 0);
    bench_service(&mut group, "guarded, absent", guard.layer(handler), IDS);
    let unguarded = |_: &http::request::Parts| bloom_guard::Extraction::Unguarded;
    let passing = BloomGuard::builder("none", unguarded).in_process().build().expect("a name");
    bench_service(&mut group, "guarded, no id", passing.layer(handler), 0);
    group.finish();
}

fn bench_service<S>(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: &str,
    mut service: S,
    first: u64,
) where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible>,
{
    let mut ids = (first..first + IDS).cycle();
    group.bench_function(name, |b| {
        b.iter_batched(
            || {
                let uri = format!("/users/{}", ids.next().expect("endless"));
                Request::get(uri).body(()).expect("a request")
            },
            // Nothing here waits, so one poll is the whole request.
            |request| {
                let response = poll_once(async { service.ready().await?.call(request).await });
                black_box(response)
            },
            BatchSize::SmallInput,
        );
    });
}

fn poll_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the in-process store answers at once"),
    }
}

criterion_group!(benches, check, middleware);
criterion_main!(benches);
