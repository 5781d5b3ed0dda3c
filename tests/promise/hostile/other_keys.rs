//! Filters, journals and inserts under another secret key, another name or a newer format.

use std::time::Duration;

use bloom_guard::{BloomGuard, PathPattern, Schedule, SecretKey, Verdict};

use super::{BITS, META, witness};
use support::model::{Table, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

/// The metadata is lost; a new process enrols first and draws another key. What is acknowledged under
/// it must not be refused by a process that still asks under the old key.
#[tokio::test]
async fn an_add_under_another_key_is_not_acknowledged_while_the_old_filter_answers() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let reader = witness(&redis, &table).await;
    redis.run::<i64>(&["DEL", META]);
    let newcomer = guard(&redis.url()).build().unwrap();
    eventually("the newcomer inserts", Duration::from_secs(5), || async {
        newcomer.insert(&4_711).await.map_err(|error| error.to_string())
    })
    .await;
    table.commit(4_711);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get_looked_up(&reader, &table, 4_711).await, 200, "acknowledged, and refused");
    })
    .await;
}

/// The same loss; the journal survives, but its digests are of the old key. A rebuild under the new
/// key cannot use them, so it must not take them for coverage.
#[tokio::test]
async fn a_journal_of_another_key_is_no_coverage() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    live(&first).await;
    first.insert(&4_711).await.unwrap(); // its transaction stays open
    redis.run::<i64>(&["DEL", META]);
    let newcomer = guard_over(&redis.url(), &table).build().unwrap();
    eventually("the newcomer's rebuild", Duration::from_secs(10), || async {
        match newcomer.rebuild_now().await {
            Ok(_) => Ok(()),
            Err(error) if format!("{error:?}").contains("JournalGap") => Ok(()),
            Err(error) => Err(format!("{error:?}")),
        }
    })
    .await;
    table.commit(4_711);
    assert_eq!(get_looked_up(&newcomer, &table, 4_711).await, 200, "acknowledged, and refused");
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

/// A newer crate's filter is live (rolling upgrade): this crate cannot set its bits, so it must not
/// say that it has.
#[tokio::test]
async fn an_add_is_not_acknowledged_while_a_newer_format_is_live() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.run::<i64>(&["SETRANGE", BITS, "9", "\u{2}"]);
    assert!(guard.insert(&4_711).await.is_err(), "acknowledged without the bits");
}
