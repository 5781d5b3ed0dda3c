//! Nulls in Redis: remembered once, shared, and never in a record's way.

use std::convert::Infallible;
use std::time::Duration;

use bloom_guard::{BloomGuard, NegativeCaching, Proof, Removed, Verdict};
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{Table, get, guard, guard_over, live};
use support::redis_server::RedisServer;
use tower::{Layer, ServiceExt};

const NULL: Verdict = Verdict::Absent(Proof::Null);

/// A filter over 1,000 ids at a rate that leaves plenty of false positives; returns one of them.
async fn false_positive(redis: &RedisServer, table: &Table) -> (BloomGuard, u64) {
    // What one was told holds for all, also for who checks by hand.
    let caching = NegativeCaching::new().ttl(Duration::from_secs(2)).shared_absence(true);
    let guard = guard_over(&redis.url(), table)
        .capacity(1_000, 0.3)
        .negative_caching(caching)
        .build()
        .unwrap();
    live_at_a_high_rate(&guard).await;
    for id in 10_000.. {
        if guard.check(&id).await.unwrap() == Verdict::Present {
            return (guard, id);
        }
    }
    unreachable!()
}

async fn live_at_a_high_rate(guard: &BloomGuard) {
    eventually("the guard is live", Duration::from_secs(10), || async {
        match guard.check(&1).await.unwrap() {
            Verdict::Unknown(doubt) => Err(doubt.to_string()),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_null_is_stored_once_per_ttl_and_gone_once_an_insert_elsewhere_has_returned() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, id) = false_positive(&redis, &table).await;
    let other = support::model::guard(&redis.url()).build().unwrap();
    live_at_a_high_rate(&other).await;

    for _ in 0..50 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
        assert_eq!(get(&other, &table, id).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(table.lookups(), 1, "the database was asked once, for both instances");
    assert_eq!(guard.check(&id).await.unwrap(), NULL);

    eventually("the null lapses", Duration::from_secs(5), || async {
        match guard.check(&id).await.unwrap() {
            Verdict::Present => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    assert_eq!(get(&other, &table, id).await, StatusCode::NOT_FOUND);
    assert_eq!(table.lookups(), 2, "once more after the TTL");

    other.insert(&id).await.unwrap();
    table.commit(id);
    assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    assert_eq!(get(&other, &table, id).await, StatusCode::OK);
}

/// The handler has read that the record is missing when its removal is told.
#[tokio::test]
async fn a_404_under_way_does_not_cut_a_removal_short() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.age();
    table.delete(7);
    let remover = guard.clone();
    let service = guard.layer(tower::service_fn(move |_: Request<String>| {
        let remover = remover.clone();
        async move {
            assert_eq!(remover.remove(&7).await.unwrap(), Removed::Remembered);
            Ok::<_, Infallible>(Response::builder().status(404).body(String::new()).unwrap())
        }
    }));
    let request = Request::get("/users/7").body(String::new()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), StatusCode::NOT_FOUND);
    let null = redis.keys().into_iter().find(|key| key.contains(":null:")).expect("a null");
    let left = redis.run::<i64>(&["TTL", &null]);
    assert!(left > 3_600, "a day was asked for, {left} s are left");
    assert_eq!(redis.run::<String>(&["GETRANGE", &null, "0", "0"]), "e", "for everyone");
}

/// Deployed with the wrong tenant, or an empty schema: nothing that it answers was ever found there.
#[tokio::test]
async fn a_newcomer_with_a_broken_backend_does_not_speak_for_those_who_saw_the_records() {
    let redis = RedisServer::start();
    let (table, nothing) = (Table::with(0..1_000), Table::default());
    let sound = guard_over(&redis.url(), &table).build().unwrap();
    let broken = guard(&redis.url()).build().unwrap();
    live(&sound).await;
    live(&broken).await;
    for id in 0..50 {
        assert_eq!(get(&sound, &table, id).await, StatusCode::OK);
        assert_eq!(get(&broken, &nothing, id).await, StatusCode::NOT_FOUND);
        assert_eq!(get(&sound, &table, id).await, StatusCode::OK, "shown a moment ago");
    }
    assert_eq!(broken.stats().nulls_stored, 50);

    // Where a record is gone indeed, one look tells, and then the 404s of others hold.
    assert_eq!(get(&sound, &table, 70).await, StatusCode::OK);
    table.delete(70);
    assert_eq!(get(&broken, &nothing, 70).await, StatusCode::NOT_FOUND);
    let lookups = table.lookups();
    for _ in 0..10 {
        assert_eq!(get(&sound, &table, 70).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(table.lookups(), lookups + 1);
}
