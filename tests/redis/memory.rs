//! Redis's memory is full, or would be.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, RebuildError, Refusal, StoreError, Verdict};
use support::eventually;
use support::model::{Table, guard_over, live};
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

/// Waits until a key is not there: what was built is freed, a lease given back.
async fn freed(redis: &RedisServer, key: &str) {
    eventually(key, Duration::from_secs(10), || async {
        let there: i64 = redis.run(&["EXISTS", key]);
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
    let RebuildError::Store(StoreError::GivenUp { doubt, reason }) = &*error else {
        panic!("{error:?}")
    };
    assert_eq!(*doubt, Doubt::Refused(Refusal::OUT_OF_MEMORY));
    assert!(reason.contains("no room"), "{reason}");
    assert!(reason.ends_with("of 31000000"), "{reason}");
    assert!(matches!(guard.check(&u64::MAX).await.unwrap(), Verdict::Absent(_)));
    freed(&redis, NEXT).await;
    limit(&redis, 60_000_000);
    guard.rebuild_now().await.unwrap();
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
    freed(&redis, LOCK).await;
    guard.rebuild_now().await.unwrap_err();
    freed(&redis, NEXT).await;
    assert!(matches!(guard.check(&u64::MAX).await.unwrap(), Verdict::Absent(_)));
}
