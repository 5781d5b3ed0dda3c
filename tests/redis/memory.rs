//! Redis's memory is full, or would be.

use std::time::Duration;

use bloom_guard::{BloomGuard, RebuildError, StoreError, Verdict};
use support::eventually;
use support::model::{Table, guard, guard_over, live};
use support::redis_server::RedisServer;

const NEXT: &str = "bg:{users}:next";
const LOCK: &str = "bg:{users}:lock";

/// A filter of 19 MB.
fn large(redis: &RedisServer, table: &Table) -> BloomGuard {
    guard_over(&redis.url(), table).capacity(10_000_000, 0.001).build().unwrap()
}

fn limit(redis: &RedisServer, bytes: u64) {
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", &bytes.to_string()]);
}

async fn freed(redis: &RedisServer) {
    eventually("what was built is freed", Duration::from_secs(10), || async {
        let there: i64 = redis.run(&["EXISTS", NEXT]);
        if there == 0 { Ok(()) } else { Err("it is there".to_owned()) }
    })
    .await;
}

#[tokio::test]
async fn a_rebuild_that_does_not_fit_says_so_and_leaves_room_for_checks() {
    let redis = RedisServer::with(&["--maxmemory-policy", "noeviction"]);
    let table = Table::with(0..1_000);
    let guard = large(&redis, &table);
    live(&guard).await;
    limit(&redis, 31_000_000);
    let error = guard.rebuild_now().await.unwrap_err();
    match &*error {
        RebuildError::Store(StoreError::NoRoom { needed, limit: 31_000_000 }) => {
            assert!(*needed > 35_000_000, "{needed}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(guard.check(&u64::MAX).await.unwrap(), Verdict::Absent(_)));
    freed(&redis).await;
    limit(&redis, 60_000_000);
    guard.rebuild_now().await.unwrap();
}

/// Others take the memory while it is built.
#[tokio::test]
async fn a_rebuild_that_runs_out_of_memory_frees_what_it_has_built() {
    let redis = RedisServer::with(&["--maxmemory-policy", "noeviction"]);
    let table = Table::with(0..1_000);
    let guard = large(&redis, &table);
    live(&guard).await;
    let rebuild = tokio::spawn({
        let guard = guard.clone();
        async move { guard.rebuild_now().await }
    });
    eventually("it is being built", Duration::from_secs(10), || async {
        let there: i64 = redis.run(&["EXISTS", NEXT]);
        if there == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    limit(&redis, 31_000_000);
    rebuild.await.unwrap().unwrap_err();
    freed(&redis).await;
    assert!(matches!(guard.check(&u64::MAX).await.unwrap(), Verdict::Absent(_)));
}

/// A process ended in the midst of a rebuild, and nothing but its filter has Redis full.
#[tokio::test]
async fn what_a_process_left_behind_does_not_keep_redis_full_for_ever() {
    let redis = RedisServer::with(&["--maxmemory-policy", "noeviction"]);
    let table = Table::with(0..1_000);
    let guard = large(&redis, &table);
    live(&guard).await;
    redis.run::<i64>(&["COPY", "bg:{users}:bits", NEXT]);
    limit(&redis, 31_000_000);
    eventually("the first rebuild has given its lease back", Duration::from_secs(10), || async {
        let there: i64 = redis.run(&["EXISTS", LOCK]);
        if there == 0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    guard.rebuild_now().await.unwrap_err();
    freed(&redis).await;
    assert!(matches!(guard.check(&u64::MAX).await.unwrap(), Verdict::Absent(_)));
}

#[tokio::test]
async fn a_process_that_starts_while_redis_is_full_acknowledges_inserts() {
    let redis = RedisServer::with(&["--maxmemory-policy", "noeviction"]);
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    live(&first).await;
    limit(&redis, 1);
    // It allows its transactions more time, which the metadata has to note.
    let day = Duration::from_secs(24 * 60 * 60);
    let newcomer = guard(&redis.url()).longest_transaction(day).build().unwrap();
    eventually("an insert is acknowledged", Duration::from_secs(5), || async {
        newcomer.insert(&4_711).await.map_err(|error| error.to_string())
    })
    .await;
    limit(&redis, 0);
    live(&newcomer).await;
    assert_eq!(first.check(&4_711).await.unwrap(), Verdict::Present);
}
