//! A rebuild that is cut short at any round trip harms nothing.

use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{BITS, LOCK, NEXT};
use support::eventually;
use support::model::{Table, guard, guard_over, live};
use support::proxy::{Cut, Proxy};
use support::redis_server::RedisServer;

/// What is cut short.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    Connection(Cut),
    Task,
}

/// What the three tests below rest on.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_whose_request_is_lost_at_any_round_trip_harms_nothing() {
    killed_at_every_round_trip(Kill::Connection(Cut::BeforeRequest)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_whose_reply_is_lost_at_any_round_trip_harms_nothing() {
    killed_at_every_round_trip(Kill::Connection(Cut::BeforeReply)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_whose_task_dies_at_any_round_trip_harms_nothing() {
    killed_at_every_round_trip(Kill::Task).await;
}

async fn killed_at_every_round_trip(kill: Kill) {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let table = Table::with(0..5_000);
    let through_proxy = guard_over(&proxy.url(), &table).build().unwrap();
    live(&through_proxy).await;
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;
    through_proxy.insert(&6_000).await.unwrap();

    let mut killed = 0;
    loop {
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
    println!("{kill:?}: a rebuild has {killed} round trips, each was killed once");
    assert!(killed >= 12, "{kill:?}: only {killed} round trips were found");
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
