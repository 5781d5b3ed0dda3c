//! What an operator is told without asking, and that a flood of requests is no flood of lines.

use std::time::Duration;

use bloom_guard::{
    BloomGuard, Builder, Doubt, Mode, OnUnknown, PathPattern, Schedule, from_blocking, from_iter,
};
use http::{Request, Response, StatusCode};
use support::eventually;
use support::log::Log;
use tokio::time::sleep;
use tower::{Layer, ServiceExt};

/// Nobody listens there.
const NOWHERE: &str = "redis://127.0.0.1:1";
const FILTER: &str = "filter=\"users\"";

fn unplaced() -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
}

fn users() -> Builder {
    unplaced().in_process()
}

async fn get(guard: &BloomGuard, path: &str) -> StatusCode {
    get_from(StatusCode::NOT_FOUND, guard, path).await
}

/// Asks a handler that always answers the same.
async fn get_from(status: StatusCode, guard: &BloomGuard, path: &str) -> StatusCode {
    let handler = tower::service_fn(move |_| async move {
        let response = Response::builder().status(status).body(String::new());
        Ok::<_, std::convert::Infallible>(response.unwrap())
    });
    let request = Request::get(path).body(String::new()).unwrap();
    guard.layer(handler).oneshot(request).await.unwrap().status()
}

#[tokio::test(start_paused = true)]
async fn paths_that_are_an_ids_once_a_layer_within_rewrites_them_are_counted_apart() {
    let guard = users().build().unwrap();
    let plain = ["/", "/users/", "/orders/7/", "/users/7/x", "/users//"];
    let rewritten = ["/users/8/", "//users/8", "/users//8/", "/users%2f8"];
    for path in plain.into_iter().chain(rewritten) {
        get(&guard, path).await;
    }
    let stats = guard.stats();
    assert_eq!((stats.unguarded, stats.unguarded_path), (5, 4));
}

/// Adds up the numbers of requests that lines tell of.
fn requests_told(lines: &[String]) -> u64 {
    let number = |line: &String| line.split("requests=").nth(1)?.split(' ').next()?.parse().ok();
    lines.iter().map(|line| number(line).unwrap_or(0_u64)).sum()
}

#[tokio::test(start_paused = true)]
async fn requests_answered_503_are_told_of_once_a_burst_and_the_rest_with_the_next() {
    let (log, _kept) = Log::begin();
    // Nothing is known of an id before there is a connection.
    let guard = unplaced().redis(NOWHERE).on_unknown(OnUnknown::Shed).build().unwrap();
    let told = || log.with("503");
    for burst in 1..=2 {
        for _ in 0..100 {
            assert_eq!(get(&guard, "/users/7").await, StatusCode::SERVICE_UNAVAILABLE);
        }
        sleep(Duration::from_secs(120)).await;
        assert_eq!(told().len(), burst, "and no line when nothing happens");
        assert_eq!(requests_told(&told()), 100 * (burst as u64 - 1) + 1);
    }
    assert!(
        told().iter().all(|line| line.contains("WARN") && line.contains(FILTER)),
        "{:?}",
        told()
    );
    assert!(told()[0].contains("verdict=Unknown(Disconnected)"), "{:?}", told());
}

#[tokio::test]
async fn every_line_names_the_filter() {
    let (log, _kept) = Log::begin();
    let away = unplaced().redis(NOWHERE).build().unwrap();
    let broken = from_blocking(|_| Err("the database is away".into()));
    let failing = users().rebuild(Schedule::manual(), broken).build().unwrap();
    failing.rebuild_now().await.unwrap_err();
    let guard = users().rebuild(Schedule::manual(), from_iter(|| 0..10_u64)).build().unwrap();
    guard.ready().await;
    guard.rebuild_now().await.unwrap();
    let missed = eventually("redis is missed", Duration::from_secs(10), || async {
        match log.with("there is no connection to redis") {
            lines if lines.is_empty() => Err("not yet".to_owned()),
            lines => Ok(lines),
        }
    })
    .await;
    drop(away);
    assert!(missed.iter().all(|line| line.contains("127.0.0.1:1")), "{missed:?}");
    for line in log.with("") {
        assert_eq!(line.matches(FILTER).count(), 1, "{line}");
    }
}

#[tokio::test]
async fn a_rebuild_says_why_it_begins_and_claims_no_filter_that_is_not_there() {
    let (log, _kept) = Log::begin();
    let guard = users().rebuild(Schedule::manual(), from_iter(|| 0..10_u64)).build().unwrap();
    guard.ready().await;
    guard.rebuild_now().await.unwrap();
    let begun = log.with("a rebuild begins");
    assert_eq!(begun.len(), 2, "{begun:?}");
    assert!(begun[0].contains("NoFilter"), "{begun:?}");
    assert!(begun[1].contains("ByHand"), "{begun:?}");

    let empty = users().rebuild(Schedule::manual(), from_iter(Vec::<u64>::new)).build().unwrap();
    empty.rebuild_now().await.unwrap_err();
    let failed = log.with("the rebuild failed");
    assert!(failed.len() == 1 && !failed[0].contains("stays"), "{failed:?}");
}

/// A route beside the pattern that nobody has excepted.
#[tokio::test(start_paused = true)]
async fn an_invalid_id_that_the_handler_answers_is_noticed_and_watched_for() {
    let (log, _kept) = Log::begin();
    let alarm = "a request whose id is called invalid was answered";
    let guard = users().rebuild(Schedule::manual(), from_iter(|| 0..10_u64)).build().unwrap();
    guard.set_mode(Mode::Shadow);
    assert_eq!(get_from(StatusCode::OK, &guard, "/users/me").await, StatusCode::OK);
    assert_eq!((guard.stats().invalid_answered, log.with(alarm).len()), (1, 1));

    guard.set_mode(Mode::Enforce);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        get_from(StatusCode::OK, &guard, "/users/me").await,
        StatusCode::OK,
        "one a second is let through"
    );
    assert_eq!(get_from(StatusCode::OK, &guard, "/users/me").await, StatusCode::NOT_FOUND);
    assert_eq!((guard.stats().invalid_answered, log.with(alarm).len()), (2, 2));
    assert_eq!(get_from(StatusCode::OK, &guard, "/users/7").await, StatusCode::OK);
    assert_eq!(guard.stats().invalid_answered, 2);
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_does_not_answer_for_ten_seconds_is_told_of_once() {
    let (log, _kept) = Log::begin();
    let guard = unplaced().redis(NOWHERE).build().unwrap();
    let told = || log.with("has not answered for ten seconds");
    get(&guard, "/users/7").await;
    sleep(Duration::from_secs(9)).await;
    assert_eq!(told(), [""; 0]);
    sleep(Duration::from_secs(3_600)).await;
    let told = told();
    assert!(told.len() == 1 && told[0].starts_with("WARN") && told[0].contains(FILTER), "{told:?}");
    assert!(told[0].contains("See that Redis runs"), "{told:?}");
}

/// A single-page application's fallback: its shell for every path.
#[tokio::test]
async fn a_handler_that_answers_2xx_for_all_ends_refusals_and_the_log_says_what_to_look_for() {
    let (log, _kept) = Log::begin();
    let guard = users().rebuild(Schedule::manual(), from_iter(|| 0..10_u64)).build().unwrap();
    guard.ready().await;
    let mut invented = 1_000;
    eventually("nothing is refused any more", Duration::from_secs(30), || {
        invented += 1;
        let guard = &guard;
        async move {
            get_from(StatusCode::OK, guard, &format!("/users/{invented}")).await;
            match guard.state().live {
                Err(Doubt::DisprovedTwice) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        }
    })
    .await;
    for path in (2_000..2_050).map(|id| format!("/users/{id}")) {
        assert_eq!(get_from(StatusCode::OK, &guard, &path).await, StatusCode::OK);
    }
    let found = log.with("a record exists that the guard holds absent");
    assert!(!found.is_empty() && found[0].starts_with("ERROR"), "{found:?}");
    let told = log.with("and from the one before");
    assert!(told.len() == 1 && told[0].starts_with("ERROR"), "{told:?}");
    for part in ["do several processes create records?", "by hand"] {
        assert!(told[0].contains(part), "{part}: {told:?}");
    }
    println!("{}\n{}", found[0], told[0]);
}
