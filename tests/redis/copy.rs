//! What this process's copy of the filter holds passes, and nobody is asked; only Redis refuses.

use std::time::Duration;

use bloom_guard::{BloomGuard, Builder, OnUnknown, Removed, Schedule};
use http::StatusCode;
use support::eventually;
use support::model::{Strangers, Table, brief, copied, get, guard, guard_over, live};
use support::redis_server::RedisServer;

use crate::found::{commands_until, is_check, monitor};

const IDS: u64 = 2_000;
const LIMIT: u64 = 64 << 20;
/// The lane's rate.
const LANE: u32 = 20;

fn with_copy(redis: &RedisServer, table: &Table) -> Builder {
    guard_over(&redis.url(), table).copy_limit(LIMIT)
}

async fn copying(redis: &RedisServer, table: &Table) -> BloomGuard {
    let guard = brief(with_copy(redis, table)).build().unwrap();
    live(&guard).await;
    copied(&guard).await;
    guard
}

/// How many of these requests made the guard ask Redis.
async fn asked(
    redis: &RedisServer,
    guard: &BloomGuard,
    table: &Table,
    ids: impl Iterator<Item = u64>,
) -> usize {
    let monitor = monitor(redis);
    for id in ids {
        assert_eq!(get(guard, table, id).await, StatusCode::OK, "{id}");
    }
    redis.run::<String>(&["ECHO", "the end"]);
    commands_until(monitor, "the end").iter().filter(|line| is_check(line)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_ids_that_exist_send_no_command_and_absent_ones_are_refused_by_redis() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = copying(&redis, &table).await;
    let asked = asked(&redis, &guard, &table, 0..IDS).await;
    // The guard itself asks once a second.
    assert!(asked < 100, "{asked} of {IDS} asked");
    assert_eq!(guard.stats().admitted_copied, IDS);
    let before = guard.stats();
    for id in Strangers(1).take(500) {
        assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    }
    let after = guard.stats();
    let passed = after.present_missing - before.present_missing;
    assert_eq!(after.refused - before.refused + passed, 500);
    assert!(passed < 50, "{passed} of 500 are false positives at one per cent");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_process_inserts_is_in_the_copy_and_what_others_insert_is_asked_of_redis_once() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = copying(&redis, &table).await;
    let other = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&other).await;
    let (ours, theirs) = (100_000..100_200, 200_000..200_200);
    guard.insert_many(ours.clone()).await.unwrap();
    other.insert_many(theirs.clone()).await.unwrap();
    ours.clone().chain(theirs.clone()).for_each(|id| table.commit(id));
    assert!(asked(&redis, &guard, &table, ours).await < 50);
    // Some are false positives of the copy.
    assert!(asked(&redis, &guard, &table, theirs.clone()).await > 150);
    // No 404 can be the reason for this one: what was found passes anyway.
    let copied = guard.stats().admitted_copied;
    for id in theirs {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    }
    assert_eq!(guard.stats().admitted_copied, copied);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_ids_that_existed_pass_and_only_others_share_the_lane() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = with_copy(&redis, &table)
        .on_unknown(OnUnknown::PassLimited)
        .lane(64, LANE)
        .build()
        .unwrap();
    live(&guard).await;
    copied(&guard).await;
    redis.kill();
    let mut strangers = Strangers(2);
    let mut busy = 0_u32;
    for id in 0..IDS {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id}");
        let absent = get(&guard, &table, strangers.next().unwrap()).await;
        busy += u32::from(absent == StatusCode::SERVICE_UNAVAILABLE);
    }
    assert!(busy > IDS as u32 / 2, "{busy} of {IDS} requests for absent ids found no room");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_process_inserts_while_no_filter_is_live_is_in_the_copy_too() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let source = guard_over(&redis.url(), &table).build().unwrap();
    live(&source).await;
    let builder = guard(&redis.url()).copy_limit(LIMIT).on_unknown(OnUnknown::PassLimited);
    let guard = builder.lane(1, 1).build().unwrap();
    live(&guard).await;
    copied(&guard).await;
    drop(source);
    redis.run::<()>(&["FLUSHALL"]);
    eventually("no filter is live", Duration::from_secs(10), || async {
        guard.state().live.map_or(Ok(()), |live| Err(format!("{live:?}")))
    })
    .await;
    let ids = 100_000..100_100;
    guard.insert_many(ids.clone()).await.unwrap();
    for id in ids {
        table.commit(id);
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_id_passes_once_in_each_process_and_not_at_all_where_the_removal_was_told() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let teller = copying(&redis, &table).await;
    let other = copying(&redis, &table).await;
    redis.age();
    for id in 0..50 {
        table.delete(id);
        eventually("the removal is remembered", Duration::from_secs(10), || async {
            match teller.remove(&id).await.unwrap() {
                Removed::Remembered => Ok(()),
                withheld => Err(format!("{withheld:?}")),
            }
        })
        .await;
        let before = table.lookups();
        for _ in 0..5 {
            assert_eq!(get(&teller, &table, id).await, StatusCode::NOT_FOUND);
        }
        assert_eq!(table.lookups(), before, "{id} is refused where it was told");
        for _ in 0..5 {
            assert_eq!(get(&other, &table, id).await, StatusCode::NOT_FOUND);
        }
        assert_eq!(table.lookups(), before + 1, "{id} passes once elsewhere");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_the_copy_let_pass_in_vain_is_asked_of_redis_and_counted_once() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = copying(&redis, &table).await;
    redis.age();
    // Nobody tells of it.
    table.delete(7);
    let before = table.lookups();
    for _ in 0..5 {
        assert_eq!(get(&guard, &table, 7).await, StatusCode::NOT_FOUND);
    }
    // By the copy, and then by Redis, which learns a null.
    assert_eq!(table.lookups(), before + 2);
    assert_eq!(guard.stats().present_missing, 1);
    // It is created anew.
    guard.insert(&7).await.unwrap();
    table.commit(7);
    assert_eq!(get(&guard, &table, 7).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_filter_is_copied_anew_and_what_it_lacks_is_refused() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = copying(&redis, &table).await;
    let first = guard.state().copy.unwrap().generation;
    (0..100).for_each(|id| table.delete(id));
    guard.rebuild_now().await.unwrap();
    live(&guard).await;
    copied(&guard).await;
    assert!(guard.state().copy.unwrap().generation > first);
    let lookups = table.lookups();
    for id in 0..100 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    }
    let passed = table.lookups() - lookups;
    assert!(passed < 10, "{passed} of 100 that the first copy held passed");
    redis.kill();
    for id in 100..IDS {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_above_the_limit_has_no_copy() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let own = guard_over(&redis.url(), &table).build().unwrap();
    live(&own).await;
    let small = guard(&redis.url()).copy_limit(1_000).rebuild(Schedule::manual(), table.clone());
    let small = small.build().unwrap();
    live(&small).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!([own.state().copy, small.state().copy], [None, None]);
    let copying = copying(&redis, &table).await;
    let state = copying.state();
    let copy = state.copy.unwrap();
    assert!((1_000..1 << 21).contains(&copy.bytes), "{copy:?}");
    assert_eq!(copy.generation, state.live.unwrap().generation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_outgrows_the_limit_takes_the_copy_before_it_away() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..20_000);
    let builder = guard_over(&redis.url(), &table).capacity(20_000, 0.001).copy_limit(45_000);
    let builder = builder.on_unknown(OnUnknown::PassLimited).lane(1, 1);
    let guard = builder.build().unwrap();
    live(&guard).await;
    copied(&guard).await;
    (20_000..40_000).for_each(|id| table.commit(id));
    (0..1_000).for_each(|id| table.delete(id));
    guard.rebuild_now().await.unwrap();
    live(&guard).await;
    eventually("the copy is gone", Duration::from_secs(20), || async {
        guard.state().copy.map_or(Ok(()), |copy| Err(format!("{copy:?}")))
    })
    .await;
    redis.kill();
    let before = table.lookups();
    for id in 0..1_000 {
        get(&guard, &table, id).await;
    }
    let passed = table.lookups() - before;
    assert!(passed < 20, "{passed} ids that were deleted before the last rebuild passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_removed_since_the_filter_was_built_is_refused_also_when_it_has_been_copied() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = copying(&redis, &table).await;
    redis.age();
    for id in 0..3 {
        guard.rebuild_now().await.unwrap();
        table.delete(id);
        eventually("the removal is remembered", Duration::from_secs(10), || async {
            match guard.remove(&id).await.unwrap() {
                Removed::Remembered => Ok(()),
                withheld => Err(format!("{withheld:?}")),
            }
        })
        .await;
        // Longer than a part of the time in which it counts as missed.
        tokio::time::sleep(Duration::from_secs(3)).await;
        copied(&guard).await;
        let before = table.lookups();
        assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
        assert_eq!(
            table.lookups(),
            before,
            "{id} passed by the copy that was read after its removal"
        );
    }
}
