//! Filters and inserts under another secret key or another name.

use std::time::Duration;

use bloom_guard::{BloomGuard, PathPattern, Schedule, SecretKey, Verdict};

use super::{BITS, META, witness};
use support::model::{Table, get_looked_up, guard, guard_over, inserted, live};
use support::redis_server::RedisServer;
use support::throughout;

/// The metadata is lost; a new process enrols first and draws another key. What is acknowledged under
/// it must not be refused by a process that still asks under the old key.
#[tokio::test]
async fn an_add_under_another_key_is_not_acknowledged_while_the_old_filter_answers() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let reader = witness(&redis, &table).await;
    redis.run::<i64>(&["DEL", META]);
    let newcomer = guard(&redis.url()).build().unwrap();
    inserted(&newcomer, [4_711]).await;
    table.commit(4_711);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get_looked_up(&reader, &table, 4_711).await, 200, "acknowledged, and refused");
    })
    .await;
}

/// With one secret key for several filters, a filter under another one's name passes for it.
#[tokio::test]
async fn another_filters_bits_are_not_trusted() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let key = SecretKey::new([9; 16]);
    let users = guard_over(&redis.url(), &table).secret_key(key.clone()).build().unwrap();
    live(&users).await;
    let posts = BloomGuard::builder("posts", PathPattern::<u64>::new("/posts/{id}").unwrap())
        .redis(&redis.url())
        .settle(Duration::ZERO)
        .check_deadline(Duration::from_secs(1))
        .secret_key(key)
        .rebuild(Schedule::manual(), table.clone())
        .build()
        .unwrap();
    live(&posts).await;
    redis.run::<i64>(&["COPY", BITS, "bg:{posts}:bits", "REPLACE"]);
    let verdict = posts.check(&7).await.unwrap();
    assert!(!matches!(verdict, Verdict::Absent(_)), "{verdict:?}");
}
