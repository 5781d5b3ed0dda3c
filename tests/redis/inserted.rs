//! What an insert says of its id.

use std::time::Duration;

use bloom_guard::{BloomGuard, Inserted};
use support::model::{Table, guard, guard_over, in_process, live, ready};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;

const IDS: u64 = 1_000;
const FRESH: u64 = 1 << 40;

async fn an_id_is_new_once_and_one_that_the_source_gave_never(guards: [BloomGuard; 2]) {
    let mut new = 0;
    for id in FRESH..FRESH + 100 {
        let mut inserts = JoinSet::new();
        for n in 0..8 {
            let guard = guards[n % 2].clone();
            inserts.spawn(async move { guard.insert(&id).await.unwrap() });
        }
        let of_one = inserts.join_all().await.iter().filter(|of| **of == Inserted::New).count();
        assert!(of_one <= 1, "{id}");
        new += of_one;
    }
    assert!(new > 90, "but for false positives: {new}");
    for id in 0..IDS {
        assert_eq!(guards[0].insert(&id).await.unwrap(), Inserted::Perhaps);
    }
}

#[tokio::test]
async fn of_several_inserts_of_an_id_one_is_told_that_it_is_new() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guards = [(); 2].map(|()| guard_over(&redis.url(), &table).build().unwrap());
    for guard in &guards {
        live(guard).await;
    }
    an_id_is_new_once_and_one_that_the_source_gave_never(guards).await;
    let guard = in_process(&table, IDS, 0.001).build().unwrap();
    ready(&guard).await;
    an_id_is_new_once_and_one_that_the_source_gave_never([guard.clone(), guard]).await;
}

#[tokio::test]
async fn without_a_filter_that_would_refuse_it_no_id_is_new() {
    let redis = RedisServer::start();
    let nobody_builds = guard(&redis.url()).build().unwrap();
    // Once metadata are joined; until then an insert may fail.
    support::model::inserted(&nobody_builds, [FRESH]).await;
    assert_eq!(nobody_builds.insert(&(FRESH + 1)).await.unwrap(), Inserted::Perhaps);
    drop(nobody_builds);
    let other = RedisServer::start();
    let table = Table::with(0..IDS);
    let settles = guard_over(&other.url(), &table).settle(Duration::from_secs(3600));
    let settles = settles.build().unwrap();
    settles.ready().await;
    for id in FRESH..FRESH + 10 {
        assert_eq!(settles.insert(&id).await.unwrap(), Inserted::Perhaps);
    }
}
