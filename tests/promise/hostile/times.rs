//! Processes that disagree about how long a transaction takes, and clocks that are set back.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::{BoxError, IdSink, RebuildSource, Schedule};
use http::{Request, Response, StatusCode};
use tokio::sync::oneshot;
use tower::{Layer, ServiceExt};

use super::{META, passes};
use support::eventually;
use support::model::{Table, brief, get, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;

/// A fleet in which `longest_transaction` is being raised.
#[tokio::test]
async fn a_mark_lasts_as_long_as_its_creator_says() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let creator = guard_over(&redis.url(), &table).build().unwrap(); // 15 minutes
    live(&creator).await;
    let other = brief(guard(&redis.url())).build().unwrap();
    live(&other).await;
    creator.insert(&4_711).await.unwrap();
    passes(&redis, Duration::from_millis(2_500)).await;
    assert_eq!(get(&other, &table, 4_711).await, 404, "its transaction is open");
    table.commit(4_711);
    assert_eq!(get_looked_up(&creator, &table, 4_711).await, 200);
}

/// A rolling deploy raises `handler_time`: the mark was set by a process that needs it for less time.
#[tokio::test]
async fn a_mark_that_is_too_short_for_a_process_that_joins_later_hides_no_record() {
    const OPEN: u64 = 4_711;
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let old = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&old).await;
    old.insert(&OPEN).await.unwrap();
    // 15 minutes and 30 seconds.
    let new = guard(&redis.url()).build().unwrap();
    live(&new).await;
    let (has_read, read) = oneshot::channel();
    let (answer, may_answer) = oneshot::channel();
    let (steps, rows) = (Arc::new(Mutex::new(Some((has_read, may_answer)))), table.clone());
    let service = new.layer(tower::service_fn(move |_: Request<String>| {
        let (has_read, may_answer) = steps.lock().unwrap().take().unwrap();
        let found = rows.look_up(OPEN);
        async move {
            has_read.send(()).unwrap();
            may_answer.await.unwrap();
            let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
        }
    }));
    let request = Request::get(format!("/users/{OPEN}")).body(String::new()).unwrap();
    let answered = tokio::spawn(service.oneshot(request));
    read.await.unwrap();
    table.commit(OPEN);
    passes(&redis, Duration::from_millis(2_500)).await;
    answer.send(()).unwrap();
    assert_eq!(answered.await.unwrap().unwrap().status(), 404, "it has read before the commit");
    for guard in [&old, &new] {
        assert_eq!(get_looked_up(guard, &table, OPEN).await, 200, "hidden by a null");
    }
}

/// A process states a day by mistake, and is gone.
#[tokio::test]
async fn the_longest_transaction_that_is_no_longer_stated_is_forgotten() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let reach = || redis.run::<Option<u64>>(&["HGET", META, "reach"]);
    let three = Duration::from_secs(3);
    let long = brief(guard(&redis.url())).longest_transaction(three).build().unwrap();
    let brief = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&brief).await;
    eventually("both have joined", three, || async {
        if reach() == Some(6_200) { Ok(()) } else { Err(format!("{:?}", reach())) }
    })
    .await;
    passes(&redis, Duration::from_secs(28)).await;
    assert_eq!(reach(), Some(6_200), "it is stated all the time");
    drop(long);
    eventually("it falls", Duration::from_secs(40), || async {
        if reach() == Some(2_200) { Ok(()) } else { Err(format!("{:?}", reach())) }
    })
    .await;
}

/// Two processes differ in `longest_transaction` (it is being raised); the shorter one rebuilds.
#[tokio::test]
async fn a_rebuild_reaches_back_as_far_as_any_creator_needs() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(1))
        .build()
        .unwrap();
    live(&rebuilder).await;
    let creator = guard(&redis.url()).build().unwrap(); // 15 minutes
    live(&creator).await;
    creator.insert(&4_711).await.unwrap();
    passes(&redis, Duration::from_millis(1_100)).await;
    rebuilder.rebuild_now().await.unwrap();
    table.commit(4_711);
    assert_eq!(get_looked_up(&creator, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// Redis's clock was two days ahead once.
#[tokio::test]
async fn a_clock_set_back_does_not_start_a_rebuild_storm() {
    struct Counting(Table, Arc<AtomicU64>);
    impl RebuildSource for Counting {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            RebuildSource::scan(&self.0, ids).await
        }
    }
    let redis = RedisServer::start();
    let now: (u64, u64) = redis.run(&["TIME"]);
    let future = (now.0 + 2 * 86_400) * 1_000_000;
    redis.run::<i64>(&["HSET", META, "epoch", &future.to_string()]);
    let scans = Arc::new(AtomicU64::new(0));
    let source = Counting(Table::with(0..1_000), Arc::clone(&scans));
    let hourly = Schedule::every(Duration::from_secs(3600));
    let guard = guard(&redis.url()).rebuild(hourly, source).build().unwrap();
    live(&guard).await;
    passes(&redis, Duration::from_secs(4)).await;
    let scans = scans.load(Ordering::SeqCst);
    assert!(scans <= 2, "{scans} scans of the database in 4 s, once an hour was asked for");
}
