//! What is not proven passes as far as it can be borne, and is never answered 404.

use std::time::Duration;

use bloom_guard::rejection::{RejectReason, Rejected};
use bloom_guard::{Builder, Mode, OnUnknown, Verdict};
use http::{Request, StatusCode};
use support::eventually;
use support::model::{Table, get, guard_over, handler, in_process, live};
use support::redis_server::RedisServer;
use tower::{Layer, ServiceExt};

#[tokio::test]
async fn what_the_lane_does_not_take_is_told_when_to_come_again() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard = guard_over(&redis.url(), &table).on_unknown(OnUnknown::PassLimited).lane(1, 1);
    let guard = guard.build().unwrap();
    live(&guard).await;
    redis.kill();
    eventually("nothing is known", Duration::from_secs(10), || async {
        match guard.check(&1).await.unwrap() {
            Verdict::Unknown(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
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

/// Its table is scanned once, and whatever is committed later behind its back.
fn over(table: &Table) -> Builder {
    in_process(table, 10_000, 1e-9)
}

#[tokio::test]
async fn the_mode_is_switched_while_requests_run() {
    let table = Table::with(0..10);
    let guard = over(&table).build().unwrap();
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

#[tokio::test(start_paused = true)]
async fn nulls_are_written_at_a_bounded_rate() {
    let table = Table::with(0..10_000);
    let guard = over(&table).build().unwrap();
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
