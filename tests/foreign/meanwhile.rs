//! What happens beside a rebuild of another system's filter: inserts go on, and trust is neither lost nor won by mistake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, ForeignFilter, Id, RebuildError, StoreError};
use support::model::{Table, guard};
use support::redis_server::RedisServer;
use tokio::task::JoinHandle;

use crate::guarded::{STRANGERS, insert, refused, refuses_strangers, trust};
use crate::migration::moving;
use crate::rebuilt::{halfway, new_key, rebuilt, rebuilt_from};
use crate::redisbloom;
use crate::traffic::LONGEST_TRANSACTION;
use crate::writers::Writer;

const IDS: u64 = 2_000;

/// Inserts until told to stop; returns how many succeeded, and why others did not.
fn inserting(guard: &BloomGuard) -> (Arc<AtomicBool>, JoinHandle<(u64, Vec<String>)>) {
    let (ends, guard) = (Arc::new(AtomicBool::new(false)), guard.clone());
    let inserts = tokio::spawn({
        let ends = Arc::clone(&ends);
        async move {
            let (mut done, mut failed) = (0, Vec::new());
            while !ends.load(Ordering::SeqCst) {
                match guard.insert(&(1_000_000 + done)).await {
                    Ok(()) => done += 1,
                    Err(error) => failed.push(error.to_string()),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (done, failed)
        }
    });
    (ends, inserts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_filter_that_cannot_be_made_fails_no_insert() {
    let server = redisbloom::server();
    server.run::<()>(&["BF.RESERVE", "users", "0.01", "100000"]);
    // The module takes no such rate.
    let filter = ForeignFilter::redisbloom_reserved("users", IDS, 1.0);
    let guard = rebuilt_from(&server.url(), filter, Table::with(0..IDS));
    insert(&guard, &Id::display(&7_u64).unwrap()).await;
    let (ends, inserts) = inserting(&guard);
    for _ in 0..3 {
        guard.rebuild_now().await.unwrap_err();
        guard.insert(&8_u64).await.unwrap();
    }
    ends.store(true, Ordering::SeqCst);
    let (done, failed) = inserts.await.unwrap();
    assert_eq!(failed, [""; 0], "{done} succeeded");
    assert_eq!(server.keys(), ["users"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_filter_that_has_no_room_fails_no_insert() {
    let writer = Writer::go_zero(200 * IDS);
    let server = RedisServer::start();
    writer.write(&server, [1]);
    let guard = rebuilt_from(&server.url(), writer.filter(), Table::with(0..IDS));
    guard.ready().await;
    let used: String = server.run(&["INFO", "memory"]);
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = used.parse::<u64>().unwrap() + writer.bits / 8 / 2;
    server.run::<()>(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    let (ends, inserts) = inserting(&guard);
    let error = guard.rebuild_now().await.unwrap_err();
    ends.store(true, Ordering::SeqCst);
    let (done, failed) = inserts.await.unwrap();
    assert_eq!(failed, [""; 0], "{done} succeeded");
    assert!(matches!(&*error, RebuildError::Store(StoreError::NoRoom { .. })), "{error:?}");
    refuses_strangers(&guard, "the live filter stays").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_ids_of_a_module_are_rebuilt_again_and_again() {
    let server = redisbloom::server();
    server.run::<()>(&["BF.ADD", "users", "1"]);
    let filter = ForeignFilter::redisbloom_reserved("users", IDS, 0.01);
    let guard = rebuilt_from(&server.url(), filter, Table::with(0..20));
    guard.ready().await;
    for _ in 0..2 {
        guard.rebuild_now().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_that_is_stated_meanwhile_does_not_end_that_of_the_new_filter() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    let (guard, source, rebuild) = halfway(&server, &writer).await;
    let other = rebuilt(&server.url(), writer.filter()).build().unwrap();
    trust(&other).await;
    source.goes_on.notify_one();
    rebuild.await.unwrap().unwrap();
    for guard in [&guard, &other] {
        refuses_strangers(guard, "the new filter is believed").await;
        assert_eq!(refused(guard, 0..IDS).await, [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_after_a_rebuild_was_lost_expires() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    let (_guard, source, rebuild) = halfway(&server, &writer).await;
    let new = new_key(&server);
    server.run::<()>(&["DEL", &new, "{bloom:users}:bg:refill"]);
    // The last ids are on their way.
    source.goes_on.notify_one();
    rebuild.await.unwrap().unwrap_err();
    let life: i64 = server.run(&["PTTL", &new]);
    assert!(life == -2 || (0..=10_000).contains(&life), "{life}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_beside_a_marker_without_a_filter_leaves_nothing() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    writer.write(&server, 0..IDS);
    let guard = rebuilt(&server.url(), writer.filter()).build().unwrap();
    insert(&guard, &Id::display(&7_u64).unwrap()).await;
    server.run::<()>(&["SET", "{bloom:users}:bg:refill", "of one that died", "PX", "10000"]);
    guard.insert(&77_777_u64).await.unwrap();
    let life: i64 = server.run(&["PTTL", "{bloom:users}:bg:new"]);
    assert!((0..=10_000).contains(&life), "{life}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_processes_know_of_a_new_filter_at_once() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    writer.write(&server, []);
    let guard = rebuilt_from(&server.url(), writer.filter(), Table::with(0..IDS));
    guard.ready().await;
    let other = rebuilt(&server.url(), writer.filter()).build().unwrap();
    let mut met = Vec::new();
    for _ in 0..3 {
        refuses_strangers(&other, "the filter is believed").await;
        guard.rebuild_now().await.unwrap();
        let (mut unknown, begun) = (0, std::time::Instant::now());
        // One of the two is no false positive.
        while refused(&other, [1 << 60, 1 << 61]).await.is_empty() {
            unknown += 1;
        }
        met.push((unknown, begun.elapsed()));
    }
    println!("{met:?}");
    // By its poll it would know in a second, after thousands of checks. On a busy machine either number may be high.
    let at_once =
        |(unknown, took): &(i32, Duration)| *unknown <= 20 || *took < Duration::from_millis(300);
    assert!(met.iter().all(at_once), "{met:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_left_behind_does_not_rebuild_what_was_handed_over() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    writer.write(&server, 0..IDS);
    let table = Table::with(0..IDS);
    let stays = rebuilt_from(&server.url(), writer.filter(), table.clone());
    stays.ready().await;
    refuses_strangers(&stays, "the filter is trusted").await;
    moving(&server, writer.filter(), &table).hand_over().await.unwrap();

    let error = stays.rebuild_now().await.map(|report| report.ids);
    let own = guard(&server.url()).longest_transaction(LONGEST_TRANSACTION).build().unwrap();
    own.ready().await;
    let created = 900_000..900_050;
    for id in created.clone() {
        own.insert(&id).await.unwrap();
        table.commit(id);
    }
    assert_eq!(refused(&stays, created.clone()).await, [0; 0], "{error:?}");
    let late = moving(&server, writer.filter(), &table);
    late.ready().await;
    refuses_strangers(&late, "the guard's own filter answers").await;
    assert_eq!(refused(&late, created).await, [0; 0], "{error:?}");
    error.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_is_under_way_is_not_put_live_after_a_hand_over() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    let (left, source, rebuild) = halfway(&server, &writer).await;
    moving(&server, writer.filter(), &Table::with(0..IDS)).hand_over().await.unwrap();
    source.goes_on.notify_one();
    rebuild.await.unwrap().unwrap_err();
    assert_eq!(refused(&left, (0..IDS).chain(STRANGERS)).await, [0; 0]);
    assert!(matches!(left.state().live, Err(Doubt::Foreign)), "{:?}", left.state().live);
}
