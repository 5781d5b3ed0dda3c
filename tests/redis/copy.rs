//! What this process's copy of the filter holds passes, and nobody is asked; only Redis refuses.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use bloom_guard::{BloomGuard, Builder, Schedule};
use http::StatusCode;
use support::model::{Strangers, Table, brief, copied, get, guard, guard_over, inserted, live};
use support::redis_server::RedisServer;

const IDS: u64 = 2_000;
const LIMIT: u64 = 64 << 20;

fn with_copy(redis: &RedisServer, table: &Table) -> Builder {
    guard_over(&redis.url(), table).copy_limit(LIMIT)
}

async fn copying(redis: &RedisServer, table: &Table) -> BloomGuard {
    let guard = brief(with_copy(redis, table)).build().unwrap();
    live(&guard).await;
    copied(&guard).await;
    guard
}

/// Every command that the server executes from now on.
pub(crate) fn monitor(redis: &RedisServer) -> BufReader<TcpStream> {
    let mut monitor = BufReader::new(TcpStream::connect(("127.0.0.1", redis.port())).unwrap());
    monitor.get_ref().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    monitor.get_mut().write_all(b"MONITOR\r\n").unwrap();
    let mut ok = String::new();
    monitor.read_line(&mut ok).unwrap();
    assert_eq!(ok, "+OK\r\n");
    monitor
}

/// Whether MONITOR shows a check.
fn is_check(line: &str) -> bool {
    line.contains("\"BITFIELD\"") || line.contains(":null:")
}

/// Every command that the server executes, as MONITOR shows it, until one that names `last`.
pub(crate) fn commands_until(mut monitor: BufReader<TcpStream>, last: &str) -> Vec<String> {
    let mut commands = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(monitor.read_line(&mut line).unwrap(), 0, "the server goes on");
        if line.contains(last) {
            return commands;
        }
        commands.push(line);
    }
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
    inserted(&guard, ours.clone()).await;
    inserted(&other, theirs.clone()).await;
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
async fn a_filter_above_the_limit_has_no_copy() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let own = guard_over(&redis.url(), &table).build().unwrap();
    live(&own).await;
    let small = guard(&redis.url()).copy_limit(1_000).rebuild(Schedule::manual(), table.clone());
    let small = small.build().unwrap();
    live(&small).await;
    // Another process copies it meanwhile.
    let copying = copying(&redis, &table).await;
    assert_eq!([own.state().copy, small.state().copy], [None, None]);
    let state = copying.state();
    let copy = state.copy.unwrap();
    assert!((1_000..1 << 21).contains(&copy.bytes), "{copy:?}");
    assert_eq!(copy.generation, state.live.unwrap().generation);
}
