//! What is allocated for a request that needs no Redis: alone in its program, whose allocator counts.
//!
//! The allocator counts by thread, so neither the tests nor the guard's tasks disturb each other.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::pin::pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use bloom_guard::rejection::Rejected;
use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Request, Response, StatusCode};
use tower::{Layer, Service};

/// A guard of the ids 0 to 999, in this process.
async fn guard<T: FromStr + Display + 'static>() -> BloomGuard {
    let guard = BloomGuard::builder("users", PathPattern::<T>::new("/users/{id}").unwrap())
        .in_process()
        .audits_per_second(0)
        .rebuild(Schedule::manual(), from_iter(|| 0..1_000_u64))
        .build()
        .unwrap();
    guard.ready().await;
    guard
}

/// Answers 200 and allocates nothing.
async fn answer(_: Request<()>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(String::new()))
}

/// Sends a request and counts what is allocated until the response is there.
fn allocations<S>(service: &mut S, path: &str) -> (Response<String>, u64)
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { panic!("never busy") };
    let request = Request::get(path).header("cookie", "a=b").body(()).unwrap();
    let mut response = None;
    let counted = measure(|| match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(ready)) => response = Some(ready),
        Poll::Pending => {}
    });
    (response.expect("needs one poll"), counted.count_total)
}

async fn ask_for_found<T: FromStr + Display + 'static>() {
    let mut service = guard::<T>().await.layer(tower::service_fn(answer));
    // After the first request the record is one that was found lately.
    let (response, _) = allocations(&mut service, "/users/7");
    assert_eq!(response.status(), StatusCode::OK);
    for path in ["/users/7", "/users/7?full=1"] {
        let (response, allocated) = allocations(&mut service, path);
        assert_eq!((response.status(), allocated), (StatusCode::OK, 0), "{path}");
    }
}

#[tokio::test]
async fn a_request_for_a_record_found_lately_allocates_nothing() {
    ask_for_found::<u64>().await;
    ask_for_found::<String>().await;
}

async fn ask_for_absent<T: FromStr + Display + 'static>() {
    let mut service = guard::<T>().await.layer(tower::service_fn(answer));
    let (refused, _) = allocations(&mut service, "/users/1234567");
    let rejected = refused.extensions().get::<Rejected>().expect("refused");
    let response_alone = measure(|| {
        let mut response = Response::new(String::new());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(rejected.clone());
    });
    let (response, allocated) = allocations(&mut service, "/users/7654321");
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(allocated, response_alone.count_total);
}

#[tokio::test]
async fn a_request_for_an_absent_record_allocates_its_response_and_nothing_else() {
    ask_for_absent::<u64>().await;
    ask_for_absent::<String>().await;
}
