//! Moving from another system's filter to one of the guard's own refuses no id that exists: before, meanwhile, afterwards.

use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{BloomGuard, ForeignFilter, PathPattern, RebuildError, Schedule, Verdict};
use support::model::{Table, get, guard};
use support::redis_server::RedisServer;
use tokio::time::sleep;

use crate::guarded::{KNOWN, STRANGERS, connected, refused, refuses_strangers, trust};
use crate::traffic::{LONGEST_TRANSACTION, Traffic};
use crate::writers::Writer;

const IDS: u64 = 2_000;
pub(crate) fn moving(server: &RedisServer, filter: ForeignFilter, table: &Table) -> BloomGuard {
    moving_within(server, filter, table, LONGEST_TRANSACTION)
}

fn moving_within(
    server: &RedisServer,
    filter: ForeignFilter,
    table: &Table,
    longest_transaction: Duration,
) -> BloomGuard {
    let guard = guard(&server.url()).migrate_from(filter);
    let guard = guard.longest_transaction(longest_transaction);
    guard.rebuild(Schedule::manual(), table.clone()).build().unwrap()
}

/// The other system's filter, and a table that has the same ids.
fn begin(writer: &Writer) -> (RedisServer, Table) {
    let server = RedisServer::start();
    writer.write(&server, 0..IDS);
    (server, Table::with(0..IDS))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_id_is_refused_before_while_and_after_the_guards_own_filter_takes_over() {
    let writer = Writer::go_zero(10 * IDS);
    let (server, table) = begin(&writer);
    // The longest time that any process states counts.
    let one = moving_within(&server, writer.filter(), &table, LONGEST_TRANSACTION / 2);
    let other = moving(&server, writer.filter(), &table);
    trust(&one).await;
    other.ready().await;
    let traffic = Traffic::new(&table, IDS);
    let mut tasks = Vec::new();
    for guard in [&one, &other] {
        tasks.push(tokio::spawn(Arc::clone(&traffic).create(guard.clone())));
        tasks.push(tokio::spawn(Arc::clone(&traffic).check(guard.clone())));
    }
    // Programs that know nothing of the guard. Their last transactions end within the longest time from now.
    for batch in 0..20 {
        let ids = (1 << 40) + batch * 10..(1 << 40) + batch * 10 + 10;
        writer.write(&server, ids.clone());
        let table = table.clone();
        tokio::spawn(async move {
            sleep(LONGEST_TRANSACTION * 9 / 10).await;
            ids.for_each(|id| table.commit(id));
        });
        sleep(Duration::from_millis(20)).await;
    }
    refuses_strangers(&one, "the old filter answers").await;
    let report = one.hand_over().await.unwrap();
    assert!(report.ids >= IDS + 200, "{report:?}");

    // From here on the application may leave the old filter out.
    let later = guard(&server.url()).longest_transaction(LONGEST_TRANSACTION).build().unwrap();
    later.ready().await;
    tasks.push(tokio::spawn(Arc::clone(&traffic).create(later.clone())));
    tasks.push(tokio::spawn(Arc::clone(&traffic).check(later.clone())));
    for guard in [&one, &other, &later] {
        refuses_strangers(guard, "the own filter answers").await;
    }
    sleep(LONGEST_TRANSACTION).await;
    writer.write(&server, STRANGERS);
    refuses_strangers(&other, "the old filter is not asked any more").await;
    let before = traffic.done();
    sleep(LONGEST_TRANSACTION * 2).await;
    traffic.end(tasks).await;
    let (created, checked) = traffic.done();
    assert!(
        created > before.0 + 100 && checked > before.1 + 20,
        "{before:?}, {created}, {checked}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_go_to_both_filters_before_and_after() {
    let writer = Writer::redisson(10 * IDS);
    let (server, table) = begin(&writer);
    let guard = moving(&server, writer.filter(), &table);
    trust(&guard).await;
    guard.insert(&900_001_u64).await.unwrap();
    table.commit(900_001);
    assert!(writer.reads(&server, 900_001));
    guard.hand_over().await.unwrap();
    guard.insert(&900_002_u64).await.unwrap();
    assert!(writer.reads(&server, 900_002));
    assert_eq!(refused(&guard, [900_001, 900_002]).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_handed_over_is_never_believed_again() {
    let writer = Writer::go_zero(10 * IDS);
    let (server, table) = begin(&writer);
    let stays = connected(&server, writer.filter()).await;
    let inspected = stays.foreign().unwrap().inspect().await.unwrap();
    stays.foreign().unwrap().trust_after(&inspected, KNOWN).await.unwrap();
    refuses_strangers(&stays, "the filter is trusted").await;
    moving(&server, writer.filter(), &table).hand_over().await.unwrap();

    // A process that was left behind, and one that starts so.
    for guard in [stays, connected(&server, writer.filter()).await] {
        assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
        let foreign = guard.foreign().unwrap();
        let inspected = foreign.inspect().await.unwrap();
        assert!(foreign.trust_after(&inspected, KNOWN).await.is_err());
        assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_whose_rebuild_fails_leaves_the_old_filter_in_use() {
    let writer = Writer::go_zero(10 * IDS);
    let (server, table) = begin(&writer);
    let guard = moving(&server, writer.filter(), &Table::default());
    trust(&guard).await;
    let error = guard.hand_over().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Empty), "{error:?}");
    refuses_strangers(&guard, "the old filter answers").await;
    assert_eq!(refused(&guard, table.snapshot()).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_null_is_remembered_while_programs_insert_that_would_not_take_it_away() {
    let writer = Writer::go_zero(10 * IDS);
    let (server, table) = begin(&writer);
    let guard = moving(&server, writer.filter(), &table);
    trust(&guard).await;
    table.delete(7);
    assert_eq!(get(&guard, &table, 7).await, 404);
    assert_eq!(guard.check(&7_u64).await, Ok(Verdict::Present));
}

#[tokio::test]
async fn a_guard_without_a_filter_to_leave_has_nothing_to_hand_over() {
    let server = RedisServer::start();
    let guard = guard(&server.url()).build().unwrap();
    let error = guard.hand_over().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::NotMigrating), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_behind_the_hand_over_fails_where_the_guards_own_filter_would_lack_it() {
    for writer in [Writer::go_zero(10 * IDS), Writer::redisson(10 * IDS)] {
        let (server, table) = begin(&writer);
        // Left behind, rolled back later, and on the way to a filter of another name.
        let stays = connected(&server, writer.filter()).await;
        stays.insert(&900_001_u64).await.unwrap();
        table.commit(900_001);
        let moves = moving(&server, writer.filter(), &table);
        moves.hand_over().await.unwrap();
        let back = connected(&server, writer.filter()).await;
        let pattern = PathPattern::<u64>::new("/people/{id}").unwrap();
        let people = BloomGuard::builder("people", pattern).redis(&server.url());
        let people = people.migrate_from(writer.filter()).build().unwrap();
        for guard in [&stays, &back, &people] {
            let error = guard.insert(&900_002_u64).await.expect_err("users' own filter lacks it");
            let text = error.to_string();
            assert!(text.contains(writer.key) && text.contains("\"users\""), "{text}");
            assert_eq!(refused(guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
        }
        // A guard that moves, or has moved, goes on.
        moves.insert(&900_003_u64).await.unwrap();
        let moved = guard(&server.url()).build().unwrap();
        refuses_strangers(&moved, "the own filter answers").await;
        assert_eq!(refused(&moved, [900_001, 900_003]).await, [0; 0]);
    }
}
