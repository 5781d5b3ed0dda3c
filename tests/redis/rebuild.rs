//! Rebuilds on Redis lose nothing, leave nothing behind, and may be cut short at any round trip.

use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};
use support::eventually;
use support::model::{Table, get, guard, guard_over, live};
use support::proxy::{Cut, Proxy};
use support::redis_server::RedisServer;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const BITS: &str = "bg:{users}:bits";
const NEXT: &str = "bg:{users}:next";
const LOCK: &str = "bg:{users}:lock";

#[tokio::test]
async fn a_rebuild_leaves_no_ttl_and_nothing_but_the_documented_keys() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.insert(&1).await.unwrap();
    assert_eq!(get(&guard, &Table::default(), 2).await, 404, "remembered");
    guard.rebuild_now().await.unwrap();
    guard.rebuild_now().await.unwrap();

    let keys = redis.keys();
    let (nulls, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| key.starts_with("bg:{users}:null:"));
    assert_eq!(others, [BITS, "bg:{users}:log", "bg:{users}:marks", "bg:{users}:meta"]);
    assert_eq!(nulls.len(), 1);
    for key in others {
        assert_eq!(redis.run::<i64>(&["TTL", key]), -1, "{key}");
    }
    for key in nulls {
        assert_eq!(key.len(), "bg:{users}:null:".len() + 32);
        assert!(redis.run::<i64>(&["TTL", key]) > 0, "{key}");
    }
}

/// What is cut short.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    Connection(Cut),
    Task,
}

/// What the test below rests on.
#[tokio::test]
async fn a_request_that_comes_in_pieces_is_cut_too() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    proxy.arm(0, Cut::BeforeReply);
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n").await.unwrap();
    eventually("the first half is there", Duration::from_secs(10), || async {
        if proxy.requests() == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    client.write_all(b"$1\r\nv\r\n").await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), proxy.fired()).await.expect("it is cut");
    assert_eq!(redis.run::<String>(&["GET", "k"]), "v", "and was carried out");
}

/// By turns a request is lost, a reply, or the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_is_cut_short_at_any_round_trip_harms_nothing() {
    const KILLS: [Kill; 3] =
        [Kill::Connection(Cut::BeforeReply), Kill::Task, Kill::Connection(Cut::BeforeRequest)];
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let table = Table::with(0..5_000);
    let through_proxy = guard_over(&proxy.url(), &table).build().unwrap();
    live(&through_proxy).await;
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;
    through_proxy.insert(&6_000).await.unwrap();

    let mut killed = 0;
    for kill in KILLS.into_iter().cycle() {
        let before = live_generation(&redis);
        let (outcome, rebuilt) = rebuild_killed_at(killed, kill, &proxy, &through_proxy).await;
        if let Some(rebuilt) = rebuilt {
            let swapped = live_generation(&redis) != before;
            assert_eq!(rebuilt, swapped, "{kill:?} {killed}: what is reported is what happened");
        }
        // The live filter is whole, for another instance as well.
        for id in (0..5_000).step_by(97).chain([6_000]) {
            assert_eq!(witness.check(&id).await.unwrap(), Verdict::Present, "{kill:?} {killed}");
        }
        live(&witness).await;
        // The next rebuild succeeds and reclaims what was left.
        eventually("the next rebuild succeeds", Duration::from_secs(20), || async {
            let rebuilt = through_proxy.rebuild_now().await;
            rebuilt.map_err(|error| format!("{kill:?} {killed}: {error:?}"))
        })
        .await;
        assert_eq!(redis.run::<i64>(&["EXISTS", NEXT, LOCK]), 0, "{kill:?} {killed}");
        assert_eq!(redis.run::<i64>(&["TTL", BITS]), -1);
        if outcome == Outcome::Unharmed {
            break;
        }
        killed += 1;
    }
    assert!(killed >= 12, "only {killed} round trips were found");
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Killed,
    Unharmed,
}

/// The stored generation, past the guard.
fn live_generation(redis: &RedisServer) -> Vec<u8> {
    redis.run(&["GETRANGE", BITS, "16", "23"])
}

/// Returns also whether the rebuild reported success, unless it was not there to report any more.
async fn rebuild_killed_at(
    n: u64,
    kill: Kill,
    proxy: &Proxy,
    guard: &BloomGuard,
) -> (Outcome, Option<bool>) {
    let cut = if let Kill::Connection(cut) = kill { cut } else { Cut::BeforeReply };
    proxy.arm(n, cut);
    let rebuild = tokio::spawn({
        let guard = guard.clone();
        async move { guard.rebuild_now().await }
    });
    let abort = rebuild.abort_handle();
    let mut rebuild = rebuild;
    tokio::select! {
        // A rebuild may survive a cut: where only a poll was hit, or the swap's reply.
        rebuilt = &mut rebuild => {
            let rebuilt = Some(rebuilt.expect("no panic").is_ok());
            if proxy.disarm() {
                return (Outcome::Unharmed, rebuilt);
            }
            proxy.fired().await;
            (Outcome::Killed, rebuilt)
        }
        () = proxy.fired() => {
            if kill == Kill::Task {
                abort.abort();
            }
            let rebuilt = rebuild.await.ok().map(|rebuilt| rebuilt.is_ok());
            (Outcome::Killed, rebuilt)
        }
    }
}
