//! What is not proven passes as far as it can be borne, and is never answered 404.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{
    BloomGuard, Builder, Doubt, Mode, OnUnknown, PathPattern, RejectReason, Rejected, Schedule,
    Verdict,
};
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{Table, get, guard_over, handler, live};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt};

/// The defaults, but for the time a check may take on a machine that is shared.
fn default_policy(url: &str, table: &Table) -> Builder {
    guard_over(url, table).on_unknown(OnUnknown::default())
}

/// A guard without Redis; its table is scanned once, and whatever is committed later behind its back.
fn in_process(table: &Table) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .capacity(10_000, 1e-9)
        .rebuild(Schedule::manual(), table.clone())
}

async fn unknown(guard: &BloomGuard) {
    eventually("nothing is known", Duration::from_secs(10), || async {
        match guard.check(&1).await.unwrap() {
            Verdict::Unknown(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn while_redis_is_away_known_ids_flow_and_others_share_the_lane() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = default_policy(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    for id in 0..500 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    }
    redis.kill();
    unknown(&guard).await;

    let before = guard.stats();
    for id in 0..500 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id} was found lately");
    }
    let mut busy = 0;
    for id in 500..1_000 {
        match get(&guard, &table, id).await {
            StatusCode::OK => {}
            StatusCode::SERVICE_UNAVAILABLE => busy += 1,
            other => panic!("{id}: {other}"),
        }
    }
    let stats = guard.stats();
    assert_eq!(stats.admitted_found - before.admitted_found, 500);
    assert_eq!(stats.overloaded - before.overloaded, busy);
    assert_eq!(stats.admitted_unknown - before.admitted_unknown, 500 - busy);
    assert!(busy > 0, "500 requests at once are more than a lane of 64 and 500 a second takes");

    redis.restart();
    live(&guard).await;
    assert_eq!(get(&guard, &table, 999).await, StatusCode::OK);
}

#[tokio::test]
async fn what_the_lane_does_not_take_is_told_when_to_come_again() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard = default_policy(&redis.url(), &table).lane(1, 1).build().unwrap();
    live(&guard).await;
    redis.kill();
    unknown(&guard).await;
    let service = guard.layer(handler(&table));
    let send = |id: u64| {
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        service.clone().oneshot(request)
    };
    assert_eq!(send(1).await.unwrap().status(), StatusCode::OK);
    let response = send(2).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let rejected = response.extensions().get::<Rejected>().unwrap();
    assert!(matches!(rejected.reason(), RejectReason::Busy(Verdict::Unknown(_))), "{rejected:?}");
}

/// Slow handlers hold the lane, and a client that goes away gives its place back.
#[tokio::test]
async fn the_lane_is_as_wide_as_it_is_said_to_be() {
    const WIDTH: u32 = 7;
    let mut redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard = default_policy(&redis.url(), &table).lane(WIDTH, 100_000).build().unwrap();
    live(&guard).await;
    assert_eq!(get(&guard, &table, 3).await, StatusCode::OK);
    redis.kill();
    unknown(&guard).await;

    let (door, inside) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let service = guard.layer(tower::service_fn({
        let (door, inside) = (Arc::clone(&door), Arc::clone(&inside));
        move |_: Request<String>| {
            let (door, inside) = (Arc::clone(&door), Arc::clone(&inside));
            async move {
                inside.fetch_add(1, Ordering::SeqCst);
                door.acquire().await.unwrap().forget();
                Ok::<_, Infallible>(Response::new(String::new()))
            }
        }
    }));
    let send = |id: u64| {
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        tokio::spawn(service.clone().oneshot(request))
    };
    let waiting: Vec<_> = (100..200).map(&send).collect();
    eventually("the others are turned away", Duration::from_secs(10), || async {
        let ended = waiting.iter().filter(|request| request.is_finished()).count();
        if ended == 100 - WIDTH as usize { Ok(()) } else { Err(ended.to_string()) }
    })
    .await;
    assert_eq!(inside.load(Ordering::SeqCst), u64::from(WIDTH));

    let known = send(3);
    eventually("an id found lately passes the full lane", Duration::from_secs(10), || async {
        let inside = inside.load(Ordering::SeqCst);
        if inside == u64::from(WIDTH) + 1 { Ok(()) } else { Err(inside.to_string()) }
    })
    .await;

    for request in &waiting {
        request.abort();
    }
    for request in waiting {
        let _aborted = request.await;
    }
    door.add_permits(2);
    assert_eq!(known.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(send(300).await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn an_answer_gives_the_place_in_the_lane_back() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = default_policy(&redis.url(), &table).lane(1, 1_000_000).build().unwrap();
    live(&guard).await;
    redis.kill();
    unknown(&guard).await;
    for id in 0..100 {
        // Without Redis to wait for, a million requests a second would be no feat.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id}");
    }
}

#[tokio::test]
async fn before_the_first_filter_all_requests_pass() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = support::model::guard(&redis.url()).on_unknown(OnUnknown::Shed).build().unwrap();
    eventually("redis is reached", Duration::from_secs(10), || async {
        match guard.check(&1).await.unwrap() {
            Verdict::Unknown(Doubt::NoFilter) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for id in 0..1_000 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    }
    assert!(guard.state().trouble.is_some(), "and it is said");
}

#[tokio::test]
async fn a_service_may_prefer_to_shed_what_is_unknown() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard = default_policy(&redis.url(), &table).on_unknown(OnUnknown::Shed).build().unwrap();
    live(&guard).await;
    assert_eq!(get(&guard, &table, 3).await, StatusCode::OK);
    redis.kill();
    unknown(&guard).await;
    assert_eq!(get(&guard, &table, 3).await, StatusCode::OK, "found lately");
    assert_eq!(get(&guard, &table, 4).await, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_mode_is_switched_while_requests_run() {
    let table = Table::with(0..10);
    let guard = in_process(&table).audits_per_second(0).build().unwrap();
    guard.ready().await;
    let answered = async |id| {
        let before = table.lookups();
        let status = get(&guard, &table, id).await;
        (status, table.lookups() - before)
    };
    assert_eq!(answered(99).await, (StatusCode::NOT_FOUND, 0));

    guard.set_mode(Mode::Shadow);
    assert_eq!(answered(99).await, (StatusCode::NOT_FOUND, 1), "by the handler");
    assert_eq!(guard.stats().shadowed, 1);
    assert_eq!(guard.stats().nulls_stored, 0, "only what passed the filter is worth a null");
    assert_eq!(guard.state().mode, Mode::Shadow);

    guard.set_mode(Mode::Off);
    let before = guard.stats();
    assert_eq!(answered(99).await, (StatusCode::NOT_FOUND, 1));
    let stats = guard.stats();
    assert_eq!((stats.unguarded, stats.absent_by_filter), (1, before.absent_by_filter));
    guard.insert(&99).await.unwrap();

    guard.set_mode(Mode::Enforce);
    table.commit(99);
    assert_eq!(answered(99).await, (StatusCode::OK, 1), "inserts count while it is off");
    assert_eq!(answered(98).await, (StatusCode::NOT_FOUND, 0));
}

#[tokio::test]
async fn only_an_enforcing_guard_refuses_what_is_no_id() {
    let guard = in_process(&Table::with(0..10)).build().unwrap();
    guard.ready().await;
    let service = guard.layer(tower::service_fn(|_: Request<String>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let status = async |mode| {
        guard.set_mode(mode);
        let request = Request::get("/users/nobody").body(String::new()).unwrap();
        service.clone().oneshot(request).await.unwrap().status()
    };
    assert_eq!(status(Mode::Enforce).await, StatusCode::NOT_FOUND);
    assert_eq!(status(Mode::Shadow).await, StatusCode::OK);
    assert_eq!(status(Mode::Off).await, StatusCode::OK);
    assert_eq!(guard.stats().invalid, 2, "which shadow counts");
}

/// One false positive, replayed with a cookie that no null may be learnt from.
#[tokio::test]
async fn a_missing_id_that_cannot_be_remembered_keeps_to_the_lane() {
    let table = Table::with(0..10);
    let guard = in_process(&table).lane(5, 10).build().unwrap();
    guard.ready().await;
    table.delete(3);
    let service = guard.layer(handler(&table));
    let mut busy = 0;
    for _ in 0..1_000 {
        let request = Request::get("/users/3").header("cookie", "a=b").body(String::new()).unwrap();
        match service.clone().oneshot(request).await.unwrap().status() {
            StatusCode::NOT_FOUND => {}
            StatusCode::SERVICE_UNAVAILABLE => busy += 1,
            other => panic!("{other}"),
        }
    }
    assert!(busy > 900, "{busy}");
    assert_eq!(table.lookups(), 1_000 - busy);

    table.commit(3);
    guard.insert(&3).await.unwrap();
    for _ in 0..100 {
        assert_eq!(get(&guard, &table, 3).await, StatusCode::OK, "it was created anew");
    }
}

#[tokio::test(start_paused = true)]
async fn nulls_are_written_at_a_bounded_rate() {
    let table = Table::with(0..10_000);
    let guard = in_process(&table).build().unwrap();
    guard.ready().await;
    (0..10_000).for_each(|id| table.delete(id));
    for (second, ids) in [0..5_000, 5_000..10_000].into_iter().enumerate() {
        for id in ids {
            assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
        }
        let (stats, stored) = (guard.stats(), 1_000 * (second as u64 + 1));
        assert_eq!((stats.nulls_stored, stats.nulls_limited), (stored, 4 * stored));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

/// A deploy that loses its tenant, say: everything is answered 404 once.
#[tokio::test]
async fn a_broken_backend_is_not_remembered() {
    let table = Table::with(0..1_000);
    let guard = in_process(&table).build().unwrap();
    guard.ready().await;
    for id in 0..1_000 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    }
    let broken = Table::default();
    for id in 0..1_000 {
        assert_eq!(get(&guard, &broken, id).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(guard.stats().nulls_stored, 0);
    for id in 0..1_000 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id} was found a moment ago");
    }
}
