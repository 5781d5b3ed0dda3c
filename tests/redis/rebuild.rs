//! What rebuilds leave in Redis.

use support::model::{Table, get, guard_over, live};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";

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
    assert_eq!(others, [BITS, "bg:{users}:log", "bg:{users}:marks", "bg:{users}:meta"]);
    assert_eq!(nulls.len(), 1);
    for key in others {
        assert_eq!(redis.run::<i64>(&["TTL", key]), -1, "{key}");
    }
    for key in nulls {
        assert_eq!(key.len(), "bg:{users}:null:".len() + 32);
        assert!(redis.run::<i64>(&["TTL", key]) > 0, "{key}");
    }
}
