//! What a rebuild leaves in Redis.

use super::{BITS, LOG, META, NEXT, held};
use support::model::{Table, get, guard_over, live};
use support::redis_server::RedisServer;

#[tokio::test]
async fn a_rebuild_leaves_no_ttl_and_nothing_but_the_documented_keys() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.insert(&1).await.unwrap();
    assert_eq!(get(&guard, &Table::default(), 2).await, 404, "remembered");
    guard.rebuild_now().await.unwrap();
    guard.rebuild_now().await.unwrap();

    let keys = redis.keys();
    let (nulls, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| key.starts_with("bg:{users}:null:"));
    assert_eq!(others, [BITS, LOG, "bg:{users}:marks", META]);
    assert_eq!(nulls.len(), 1);
    for key in others {
        assert_eq!(redis.run::<i64>(&["TTL", key]), -1, "{key}");
    }
    for key in nulls {
        assert_eq!(key.len(), "bg:{users}:null:".len() + 32);
        assert!(redis.run::<i64>(&["TTL", key]) > 0, "{key}");
    }
}

#[tokio::test]
async fn a_ttl_on_the_building_key_does_not_become_the_live_keys() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, gate) = held(&redis, &table, 0, &[]);
    let expiring = tokio::task::spawn_blocking({
        let redis = RedisServer::connection(&redis);
        move || {
            let mut redis = redis;
            // Whenever the building key appears it is given a TTL, until the live key is there.
            while redis::cmd("EXISTS").arg(BITS).query::<i64>(&mut redis).unwrap() == 0 {
                redis::cmd("EXPIRE").arg(NEXT).arg(1000).query::<i64>(&mut redis).unwrap();
            }
        }
    });
    gate.add_permits(1_000);
    live(&guard).await;
    expiring.await.unwrap();
    assert_eq!(redis.run::<i64>(&["TTL", BITS]), -1);
}
