//! Redis forgets an insert: by an old dump, a flush, eviction, a failover.

use std::time::Duration;

use tokio::time::Instant;

use super::{BACK, BITS, LOG, META, OPEN};
use super::{generation, never_refused, rebuilder_and_creator, rebuilt};
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};

/// Somebody was rebuilding when the dump was written, or when the replica was promoted.
#[tokio::test]
async fn a_lease_that_came_with_a_dump_keeps_nobody_from_rebuilding() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let old = generation(&guard);
    redis.run::<()>(&["SET", "bg:{users}:lock", "somebody", "PX", "3600000"]);
    redis.run::<()>(&["SAVE"]);
    redis.restart();
    rebuilt(&guard, old).await;
}

#[tokio::test]
async fn an_insert_lost_by_a_restart_from_an_old_dump_is_not_refused() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let table = Table::with(0..1_000);
    let (rebuilder, creator) = rebuilder_and_creator(&redis.url(), &redis.url(), &table).await;
    redis.run::<()>(&["SAVE"]);
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    redis.restart();
    let ended = Instant::now();
    rebuilt(&rebuilder, old).await;
    rebuilt(&creator, old).await;
    assert!(ended.elapsed() < BACK, "back after {:?}", ended.elapsed());
    never_refused([&rebuilder, &creator], &table).await;
}

#[tokio::test]
async fn an_insert_lost_by_an_emptied_redis_is_not_refused() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (rebuilder, creator) = rebuilder_and_creator(&redis.url(), &redis.url(), &table).await;
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    redis.run::<()>(&["FLUSHALL"]);
    let ended = Instant::now();
    rebuilt(&rebuilder, old).await;
    rebuilt(&creator, old).await;
    assert!(ended.elapsed() < BACK, "back after {:?}", ended.elapsed());
    never_refused([&rebuilder, &creator], &table).await;
}

/// The journal and its numbering go, the filter and the process that answers stay (eviction).
#[tokio::test]
async fn an_insert_lost_with_the_journal_is_in_the_next_filter() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (rebuilder, creator) = rebuilder_and_creator(&redis.url(), &redis.url(), &table).await;
    creator.insert(&OPEN).await.unwrap();
    redis.run::<i64>(&["DEL", LOG, META]);
    eventually("a rebuild", BACK, || async {
        rebuilder.rebuild_now().await.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
    never_refused([&rebuilder, &creator], &table).await;
}

#[tokio::test]
async fn an_insert_lost_by_a_failover_is_not_refused() {
    let (a, b) = (RedisServer::start(), RedisServer::start());
    let route = Route::to(a.port()).await;
    let table = Table::with(0..1_000);
    let (rebuilder, creator) = rebuilder_and_creator(&route.url(), &route.url(), &table).await;
    b.run::<()>(&["REPLICAOF", "127.0.0.1", &a.port().to_string()]);
    eventually("b follows", Duration::from_secs(20), || async {
        let info: String = b.run(&["INFO", "replication"]);
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
    // The first replica gives the primary a new history: wait until that is over.
    rebuilder.rebuild_now().await.ok();
    live(&rebuilder).await;
    live(&creator).await;
    eventually("b has the filter", Duration::from_secs(20), || async {
        let digest = |redis: &RedisServer| redis.run::<Option<Vec<u8>>>(&["DUMP", BITS]);
        if digest(&a) == digest(&b) { Ok(()) } else { Err("no".to_owned()) }
    })
    .await;

    b.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    drop(a);
    route.turn(Traffic::To(b.port()));
    let ended = Instant::now();
    rebuilt(&rebuilder, old).await;
    rebuilt(&creator, old).await;
    assert!(ended.elapsed() < BACK, "back after {:?}", ended.elapsed());
    never_refused([&rebuilder, &creator], &table).await;
}
