//! Somebody's hand on the live key, or the books gone beside it.

use std::time::Duration;

use bloom_guard::{Doubt, Verdict};

use super::{BITS, META, witness};
use support::model::{Table, get, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

/// Somebody makes the live key longer.
#[tokio::test]
async fn an_add_to_a_lengthened_filter_is_not_lost() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = witness(&redis, &table).await;
    guard.insert(&5_000).await.unwrap();
    redis.run::<i64>(&["APPEND", BITS, "x"]);
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// Somebody makes the live key longer; a process that starts then sees that it is no filter, one that
/// knew it before would go on asking it.
#[tokio::test]
async fn an_add_by_one_who_sees_a_lengthened_filter_stops_those_who_do_not() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let witness = witness(&redis, &table).await;
    redis.run::<i64>(&["APPEND", BITS, "x"]);
    let newcomer = guard(&redis.url()).build().unwrap();
    eventually("the newcomer inserts", Duration::from_secs(5), || async {
        newcomer.insert(&4_711).await.map_err(|error| error.to_string())
    })
    .await;
    table.commit(4_711);
    assert_eq!(get_looked_up(&witness, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// A value that is replaced and put back: who saw it in between must not go on as if it were no filter.
#[tokio::test]
async fn an_add_after_a_filter_was_shortened_and_put_back_is_not_lost() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let witness = witness(&redis, &table).await;
    let set = |bytes: &[u8]| {
        redis::cmd("SET").arg(BITS).arg(bytes).exec(&mut redis.connection()).unwrap();
    };
    let whole: Vec<u8> = redis.run(&["GET", BITS]);
    set(&whole[..whole.len() - 64]);
    let newcomer = guard(&redis.url()).build().unwrap();
    eventually("the newcomer inserts", Duration::from_secs(5), || async {
        newcomer.insert(&1).await.map_err(|error| error.to_string())
    })
    .await;
    set(&whole);
    newcomer.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get_looked_up(&witness, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// Somebody restores yesterday's filter over today's, on the very process that verified both.
#[tokio::test]
async fn an_older_filter_than_the_one_known_is_not_trusted() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    let old: Vec<u8> = redis.run(&["DUMP", BITS]);
    builder.insert(&4_711).await.unwrap();
    table.commit(4_711);
    builder.rebuild_now().await.unwrap();
    drop(builder);
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;
    let mut restore = redis::cmd("RESTORE");
    restore.arg(BITS).arg(0).arg(old).arg("REPLACE").exec(&mut redis.connection()).unwrap();
    throughout(Duration::from_millis(1_500), || async {
        assert_eq!(get_looked_up(&witness, &table, 4_711).await, 200, "committed, and refused");
    })
    .await;
    let doubts = |verdict| matches!(verdict, Verdict::Unknown(Doubt::Suspect | Doubt::Foreign));
    assert!(doubts(witness.check(&5_000).await.unwrap()));
    let newcomer = guard(&redis.url()).build().unwrap();
    eventually("a newcomer does not trust it either", Duration::from_secs(5), || async {
        match newcomer.check(&5_000).await.unwrap() {
            verdict if doubts(verdict) => Ok(()),
            Verdict::Absent(_) => panic!("it refuses"),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let healer = guard_over(&redis.url(), &table).build().unwrap();
    healer.ready().await;
    healer.rebuild_now().await.unwrap();
    live(&witness).await;
}

/// Marks and metadata are lost together (allkeys eviction).
#[tokio::test]
async fn lost_marks_and_metadata_stop_nulls() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.insert(&4_711).await.unwrap();
    redis.run::<i64>(&["DEL", "bg:{users}:marks", META]);
    assert_eq!(get(&guard, &table, 4_711).await, 404, "its transaction is open");
    table.commit(4_711);
    assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200);
}
