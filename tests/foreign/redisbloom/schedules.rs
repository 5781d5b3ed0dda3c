//! What happens between two commands, between two programs or between two looks refuses no id that exists.

use redis::Client;
use support::proxy::Proxy;

use super::*;
use crate::guarded::connected_at;

/// An id of another program.
const THEIRS: u64 = 1 << 49;

/// Runs commands past the guard.
fn run(url: &str, commands: &[&[&str]]) {
    let mut connection = Client::open(url).unwrap().get_connection().unwrap();
    let mut pipeline = redis::pipe();
    for command in commands {
        pipeline.add_command(redis::Cmd::new().arg(*command).clone()).ignore();
    }
    pipeline.exec(&mut connection).unwrap();
}

/// A filter that takes no more ids, and lacks the last that other programs tried to insert.
fn fill(server: &RedisServer, key: &str) {
    let told = |what| server.run::<Vec<u64>>(&["BF.INFO", key, what])[0];
    let missing = told("CAPACITY") - told("ITEMS");
    let mut add = redis::cmd("BF.MADD");
    add.arg(key).arg((0..2 * missing).map(|id| format!("filling {id}")).collect::<Vec<_>>());
    add.query::<redis::Value>(&mut server.connection()).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_the_key_within_a_batch_refuses_nothing() {
    const SWAPS: [&[&[&str]]; 3] = [
        &[&["DEL", KEY]],
        // It has more ids, and room.
        &[&["RENAME", KEY, "away"], &["RENAME", "other", KEY]],
        &[&["DEL", KEY], &["BF.ADD", KEY, "1"]],
    ];
    for swap in SWAPS {
        let server = server();
        reserve(&server, KEY, 2 * IDS, &["NONSCALING"]);
        reserve(&server, "other", 9 * IDS, &[]);
        write(&server, KEY, 0..IDS);
        write(&server, "other", IDS..6 * IDS);
        let proxy = Proxy::start(server.port()).await;
        let guard = connected_at(&proxy.url(), filter()).await;
        trust(&guard).await;
        // It is full: what others insert is not in it.
        fill(&server, KEY);
        let id = STRANGERS.start.to_string();
        let url = server.url();
        proxy.between(&id, "*2\r\n$7\r\nBF.INFO", move || run(&url, swap));
        assert_eq!(refused(&guard, [STRANGERS.start]).await, [0; 0], "{swap:?}");
        proxy.fired().await;
        nothing_is_refused(&server, &guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_was_demoted_hides_no_insert_into_the_new_one() {
    let (server, guard) = guarded().await;
    // It keeps its data, and its connections.
    server.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    // What the new primary has acknowledged meanwhile.
    assert_eq!(refused(&guard, [STRANGERS.start]).await, [0; 0]);
    server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_without_its_replicas_refuses_nothing() {
    let (server, guard) = guarded().await;
    server.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
    server.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    refuses_strangers(&guard, "it refuses again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_with_as_many_ids_as_before_hides_no_insert_of_this_process() {
    let (server, guard) = guarded().await;
    let copy: Vec<u8> = server.run(&["DUMP", KEY]);
    guard.insert(&STRANGERS.start).await.unwrap();
    let mut restore = redis::pipe();
    restore.cmd("RESTORE").arg(KEY).arg(0).arg(copy).arg("REPLACE");
    restore.cmd("BF.MADD").arg(KEY).arg((IDS..IDS + 100).collect::<Vec<_>>());
    restore.atomic().exec(&mut server.connection()).unwrap();
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_another_filter_took_is_not_hidden_by_the_next_one() {
    let (server, guard) = guarded().await;
    run(&server.url(), &[&["RENAME", KEY, "away"], &["BF.ADD", KEY, "1"]]);
    guard.insert(&THEIRS).await.unwrap();
    run(&server.url(), &[&["DEL", KEY], &["RENAME", "away", KEY]]);
    guard.insert(&STRANGERS.start).await.unwrap();
    assert_eq!(refused(&guard, [THEIRS]).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_away_for_the_first_command_of_a_batch_refuses_nothing() {
    let server = server();
    reserve(&server, KEY, 2 * IDS, &[]);
    write(&server, KEY, 0..IDS);
    let proxy = Proxy::start(server.port()).await;
    let guard = connected_at(&proxy.url(), filter()).await;
    trust(&guard).await;
    let url = server.url();
    proxy.between("\r\n77\r\n", "*2\r\n$7\r\nBF.INFO", move || {
        run(&url, &[&["RENAME", "away", KEY]]);
    });
    run(&server.url(), &[&["RENAME", KEY, "away"], &["BF.ADD", KEY, "1"]]);
    assert_eq!(refused(&guard, [77]).await, [0; 0]);
    proxy.fired().await;
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_while_nobody_asks_is_noticed_too() {
    for what in ["another", "an older one", "none"] {
        let (server, guard) = guarded().await;
        let copy: Vec<u8> = server.run(&["DUMP", KEY]);
        write(&server, KEY, [THEIRS]);
        assert_eq!(refused(&guard, [THEIRS]).await, [0; 0]);
        let mut restore = redis::cmd("RESTORE");
        restore.arg("older").arg(0).arg(copy).exec(&mut server.connection()).unwrap();
        reserve(&server, "other", 9 * IDS, &[]);
        write(&server, "other", IDS..6 * IDS);
        server.run::<()>(&["RENAME", KEY, "away"]);
        match what {
            "another" => server.run::<()>(&["RENAME", "other", KEY]),
            "an older one" => server.run::<()>(&["RENAME", "older", KEY]),
            _ => {}
        }
        eventually("it is noticed", SOON, || async {
            let live = guard.state().live;
            if live.is_err() { Ok(()) } else { Err(format!("{what}: {live:?}")) }
        })
        .await;
        // What other programs inserted meanwhile is not in it.
        server.run::<()>(&["RENAME", "away", KEY]);
        nothing_is_refused(&server, &guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_of_a_filter_that_was_replaced_harms_no_trust_in_the_next() {
    let server = server();
    write(&server, KEY, 0..IDS);
    let late = connected(&server, filter()).await;
    let inspected = late.foreign().unwrap().inspect().await.unwrap();
    server.run::<()>(&["DEL", KEY]);
    write(&server, KEY, 0..IDS);
    let guard = trusting(&server, filter()).await;
    refuses_strangers(&guard, "the guard refuses").await;
    late.foreign().unwrap().trust_after(&inspected, KNOWN).await.expect_err("it is another one");
    assert!(guard.state().live.is_ok(), "{:?}", guard.state());
    refuses_strangers(&guard, "the guard refuses still").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_the_highest_rate_is_not_taken_for_the_one_that_was_sealed() {
    // In a full one each id is found once in four times, and nine in ten.
    for rate in ["0.25", "0.9"] {
        let (server, guard) = guarded().await;
        server.run::<()>(&["BF.RESERVE", "other", rate, "50000", "NONSCALING"]);
        write(&server, "other", 1 << 40..(1 << 40) + 60_000);
        server.run::<()>(&["RENAME", "other", KEY]);
        nothing_is_refused(&server, &guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_is_sixteen_ids_and_is_made_once() {
    let server = server();
    server.run::<()>(&["BF.RESERVE", KEY, "0.000001", "1000"]);
    write(&server, KEY, 0..100);
    let guard = connected(&server, filter()).await;
    let foreign = guard.foreign().unwrap();
    let items = || server.run::<Vec<u64>>(&["BF.INFO", KEY, "ITEMS"])[0];
    let mut inspected = foreign.inspect().await.unwrap();
    assert_eq!(items(), 116);
    // As a program does that watches it.
    for _ in 0..5 {
        inspected = foreign.inspect().await.unwrap();
    }
    assert_eq!(items(), 116);
    foreign.trust_after(&inspected, KNOWN).await.unwrap();
    guard.ready().await;
    refuses_strangers(&guard, "the guard refuses").await;
    foreign.trust_after(&foreign.inspect().await.unwrap(), KNOWN).await.unwrap();
    assert_eq!(items(), 116);
    // After a loss it is another one: copies of the filter have the old one.
    server.run::<()>(&["RENAME", KEY, "away"]);
    assert_eq!(refused(&guard, 0..100).await, [0; 0]);
    server.run::<()>(&["RENAME", "away", KEY]);
    trust(&guard).await;
    assert_eq!(items(), 132);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_only_a_part_of_the_ids_found_room_for_fails() {
    let server = server();
    reserve(&server, KEY, IDS, &["NONSCALING"]);
    write(&server, KEY, 0..IDS - 100);
    let guard = trusting(&server, filter()).await;
    refuses_strangers(&guard, "the guard refuses").await;
    let error = guard.insert_many(IDS..IDS + 100).await.expect_err("there is room for 84 at most");
    assert!(format!("{error:?}").contains("doubt: Full"), "{error:?}");
    assert_eq!(refused(&guard, IDS..IDS + 100).await, [0; 0]);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_expires_refuses_nothing_then_and_later() {
    let (server, guard) = guarded().await;
    server.run::<()>(&["PEXPIRE", KEY, "1"]);
    eventually("it is gone", SOON, || async {
        if server.run(&["EXISTS", KEY]) { Err("it is there".to_owned()) } else { Ok(()) }
    })
    .await;
    write(&server, KEY, IDS / 2..3 * IDS);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_another_process_hides_nothing() {
    let (server, guard) = guarded().await;
    let other = connected(&server, filter()).await;
    other.ready().await;
    for id in IDS..IDS + 20 {
        write(&server, KEY, [id]);
        trust(&other).await;
        assert_eq!(refused(&guard, 0..=id).await, [0; 0]);
        assert_eq!(refused(&other, 0..=id).await, [0; 0]);
    }
    refuses_strangers(&guard, "both trust it").await;
    // What the other one finds lost and trusts again, with less in it, this one does not.
    let copy: Vec<u8> = server.run(&["DUMP", KEY]);
    guard.insert(&STRANGERS.start).await.unwrap();
    let mut restore = redis::cmd("RESTORE");
    restore.arg(KEY).arg(0).arg(copy).arg("REPLACE");
    restore.exec(&mut server.connection()).unwrap();
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_the_third_protocol_says_the_same() {
    let server = server();
    reserve(&server, KEY, 2 * IDS, &["NONSCALING"]);
    write(&server, KEY, 0..IDS);
    let url = format!("{}?protocol=resp3", server.url());
    let guard = connected_at(&url, filter()).await;
    trust(&guard).await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    refuses_strangers(&guard, "the guard refuses").await;
    guard.insert(&STRANGERS.start).await.unwrap();
    assert_eq!(server.run::<u8>(&["BF.EXISTS", KEY, &STRANGERS.start.to_string()]), 1);
    fill(&server, KEY);
    // Some of them may be in it by chance.
    let error = guard.insert_many(THEIRS..THEIRS + 20).await.expect_err("it is full");
    assert!(format!("{error:?}").contains("doubt: Full"), "{error:?}");
    nothing_is_refused(&server, &guard).await;
    server.run::<()>(&["DEL", KEY]);
    nothing_is_refused(&server, &guard).await;
}
