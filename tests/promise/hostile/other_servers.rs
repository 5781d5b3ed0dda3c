//! The name leads to another server, by a failover and back.

use std::time::Duration;

use super::BITS;
use support::model::{Table, get_looked_up, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

/// Failover A -> B -> A: A comes back with its old `run_id` and without what only it had acknowledged.
#[tokio::test]
async fn a_primary_that_was_a_replica_meanwhile_is_suspect() {
    let a = RedisServer::start();
    let b = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&a.url(), &table).build().unwrap();
    live(&guard).await;
    let (pa, pb) = (a.port().to_string(), b.port().to_string());
    b.run::<()>(&["REPLICAOF", "127.0.0.1", &pa]);
    synced(&b).await;
    eventually("b has the filter", Duration::from_secs(10), || async {
        let keys: i64 = b.run(&["EXISTS", BITS]);
        if keys == 1 { Ok(()) } else { Err("no".to_owned()) }
    })
    .await;
    // The partition: b is promoted, a goes on acknowledging.
    b.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200);
    // It heals: a follows b. Then b fails, and a is promoted again.
    a.run::<()>(&["REPLICAOF", "127.0.0.1", &pb]);
    synced(&a).await;
    a.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200, "{:?}", guard.state());
    })
    .await;
}

async fn synced(redis: &RedisServer) {
    eventually("synced", Duration::from_secs(20), || async {
        let info: String = redis.run(&["INFO", "replication"]);
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
}
