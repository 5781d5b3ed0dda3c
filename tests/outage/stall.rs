//! A Redis that falls silent is not heaped with commands, and is found again soon after.

use std::time::Duration;

use bloom_guard::{Doubt, Verdict};
use futures_util::future::join_all;
use support::model::{Table, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};

/// What may lie before a silent server at most: the calls under way, those given up, and some polls.
const BOUND: u64 = 512 + 32 + 50;

/// How often a command was carried out.
fn calls(redis: &RedisServer, command: &str) -> u64 {
    let stats: String = redis.run(&["INFO", "commandstats"]);
    let line = format!("cmdstat_{command}:calls=");
    let calls = stats.lines().find_map(|stat| stat.strip_prefix(&line)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn checks_and_inserts_that_are_given_up_do_not_pile_up_before_a_silent_server() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build().unwrap();
    live(&rebuilder).await;
    drop(rebuilder);
    let guard = guard(&route.url()).build().unwrap();
    live(&guard).await;
    guard.insert(&1).await.unwrap();
    let (checked, added) = (calls(&redis, "bitfield"), calls(&redis, "xadd"));

    route.turn(Traffic::Silent);
    let silent = Instant::now();
    // Callers that give up long before the deadline of a second: clients that hang up.
    while silent.elapsed() < Duration::from_millis(600) {
        let patience = Duration::from_millis(5);
        join_all((0..100_u64).map(|id| {
            let guard = &guard;
            async move {
                timeout(patience, guard.check(&id)).await.ok();
                timeout(patience, guard.insert(&id)).await.ok();
            }
        }))
        .await;
    }
    route.turn(Traffic::Fair);
    let back = Instant::now();
    live(&guard).await;
    guard.insert(&2).await.unwrap();
    assert!(back.elapsed() < Duration::from_secs(5), "back after {:?}", back.elapsed());
    let (checked, added) = (calls(&redis, "bitfield") - checked, calls(&redis, "xadd") - added);
    assert!(checked < BOUND, "{checked} checks lay before the silent server");
    assert!(added < BOUND, "{added} inserts lay before the silent server");
}

#[tokio::test]
async fn checks_above_the_limit_are_unknown_at_once_and_those_below_wait() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..10);
    let guard = guard_over(&route.url(), &table).check_deadline(Duration::from_millis(500));
    let guard = guard.build().unwrap();
    live(&guard).await;
    route.turn(Traffic::Silent);
    let verdicts = join_all((0..5_000_u64).map(|id| {
        let guard = &guard;
        async move { guard.check(&id).await.unwrap() }
    }))
    .await;
    let count = |doubt| verdicts.iter().filter(|&&v| v == Verdict::Unknown(doubt)).count();
    let (late, refused) = (count(Doubt::Timeout), count(Doubt::Overloaded));
    assert_eq!(late + refused, 5_000);
    // As many as the limit wait, and what was sent before, by the guard itself for one.
    assert!((4_096..4_200).contains(&late), "{late} wait");
}

#[test]
fn a_check_ends_by_its_deadline_where_nobody_drives_the_runtime_of_the_guards_tasks() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (own, other) = (runtime(), runtime());
    let redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard = own.block_on(async {
        let guard = guard_over(&redis.url(), &table).build().unwrap();
        live(&guard).await;
        guard
    });
    let verdicts = other.block_on(async {
        let checks = join_all((10..74_u64).map(|id| {
            let guard = &guard;
            async move { guard.check(&id).await.unwrap() }
        }));
        timeout(Duration::from_secs(60), checks).await.expect("they hang")
    });
    assert_eq!(verdicts, vec![Verdict::Unknown(Doubt::Timeout); 64]);
}
