//! What changes a filter: `mode`, `rebuild` and `drop`.

use std::time::Duration;

use bloom_guard::{BloomGuard, Mode, PathPattern, SecretKey};
use support::eventually;
use support::model::{Table, guard_over, live};
use support::proxy::{Cut, Proxy};
use support::redis_server::RedisServer;

use super::away::{cluster, filled_shards, url};
use super::{Ran, filled};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn all_processes_change_their_mode() {
    let (redis, guard) = filled().await;
    let field = |name: &str| redis.run::<Option<String>>(&["HGET", "bg:{users}:meta", name]);
    let (reach, settles) = (field("reach"), field("settles"));
    for (word, mode) in [("off", Mode::Off), ("shadow", Mode::Shadow), ("enforce", Mode::Enforce)] {
        let ran = Ran::with(&["mode", &redis.url(), "users", word]);
        assert_eq!(ran.status, 0, "{ran:?}");
        eventually("the process knows", Duration::from_secs(5), || async {
            if guard.mode() == mode { Ok(()) } else { Err(format!("{:?}", guard.mode())) }
        })
        .await;
        ran.is_as_kept(&format!("mode_{word}"));
    }
    // Nobody's marks last longer for it, and nothing settles anew.
    assert_eq!((field("reach"), field("settles")), (reach, settles));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_is_deleted_only_when_no_process_polls_it() {
    let (redis, guard) = filled().await;
    redis.age();
    guard.remove(&8).await.unwrap();
    let polled = Ran::with(&["drop", &redis.url(), "users", "--yes"]);
    assert!(polled.status == 2 && polled.err.contains("has polled"), "{polled:?}");
    drop(guard);
    // As if that were long ago, once the last poll is over.
    tokio::time::sleep(Duration::from_millis(100)).await;
    redis.run::<i64>(&["HSET", "bg:{users}:meta", "polled", "1", "stated", "1"]);
    redis.run::<()>(&["SET", "mine", "1"]);
    Ran::with(&["drop", &redis.url(), "users"]).is_as_kept("drop_asked");
    Ran::with(&["drop", &redis.url(), "users", "--yes"]).is_as_kept("drop");
    assert_eq!(redis.keys(), ["mine"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deletion_that_ended_halfway_can_be_repeated() {
    let redis = RedisServer::start();
    drop(filled_shards(&redis.url()).await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    for shard in 0..16 {
        let meta = format!("bg:{{users#{shard}/16}}:meta");
        redis.run::<i64>(&["HSET", &meta, "polled", "1", "stated", "1"]);
    }
    let proxy = Proxy::start(redis.port()).await;
    let drops = |more: &[&str]| Ran::with(&[&["drop", &proxy.url(), "users"], more].concat());
    for ended in 0..100 {
        let before = (redis.keys(), proxy.requests());
        let asked = drops(&[]);
        assert!(asked.err.contains("Nothing was deleted"), "after {ended}: {asked:?} {before:?}");
        // Of the deletions only the first comes through.
        proxy.arm(proxy.requests() - before.1 + 1, Cut::BeforeRequest);
        let deleted = drops(&["--yes"]);
        if proxy.disarm() {
            assert_eq!((deleted.status, redis.keys()), (0, vec![]), "{deleted:?}");
            return;
        }
        assert!(deleted.status == 2 && redis.keys().len() < before.0.len(), "{deleted:?}");
    }
    panic!("it does not end: {:?}", redis.keys());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_with_a_source_rebuilds_what_the_command_asks_for_in_one_shard_and_in_four() {
    // Redis's clock is as it was, or was two days ahead when a token was drawn.
    for (shards, was_set_back) in [(1, false), (4, false), (1, true)] {
        let redis = RedisServer::start();
        let table = Table::with(0..1_000);
        let meta = |shard: u32| match shards {
            1 => "bg:{users}:meta".to_owned(),
            _ => format!("bg:{{users#{shard}/{shards}}}:meta"),
        };
        let (now, _): (u64, u64) = redis.run(&["TIME"]);
        let ahead = ((now + 2 * 86_400) * 1_000_000).to_string();
        for shard in (0..shards).filter(|_| was_set_back) {
            redis.run::<i64>(&["HSET", &meta(shard), "epoch", &ahead]);
        }
        let mut builder = guard_over(&redis.url(), &table);
        if shards > 1 {
            builder = builder.secret_key(SecretKey::new([7; 16])).shards(shards);
        }
        let guard = builder.build().unwrap();
        live(&guard).await;
        let key = [("BLOOM_GUARD_SECRET_KEY", "07070707070707070707070707070707")];
        let key = if shards == 1 { &key[..0] } else { &key[..] };
        let run = |arguments: &[&str]| Ran::fed(arguments, "", key);
        let generation =
            || run(&["--json", "status", &redis.url(), "users"]).json()["generation"].clone();
        let field = |name: &str| redis.run::<Option<String>>(&["HGET", &meta(0), name]);
        let before = (field("reach"), field("settles"));
        (1_000..1_500).for_each(|id| table.commit(id));
        let ran = run(&["rebuild", &redis.url(), "users"]);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert!(ran.out.trim_end().ends_with("s: a new filter is live: 1,500 ids"), "{ran:?}");
        assert_eq!((field("reach"), field("settles")), before);
        // Once.
        let rebuilt = generation();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(generation(), rebuilt);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_no_process_can_rebuild_stays_asked_until_one_can() {
    let (redis, guard) = filled().await;
    drop(guard);
    let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
    let without = BloomGuard::builder("users", pattern).redis(&redis.url()).build().unwrap();
    live(&without).await;
    let ran = Ran::with(&["rebuild", &redis.url(), "users", "--wait", "8"]);
    ran.is_as_kept("rebuild_no_source");
    assert_eq!(ran.status, 1);
    let table = Table::with(0..1_200);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    eventually("it is rebuilt", Duration::from_secs(20), || async {
        match Ran::with(&["--json", "status", &redis.url(), "users"]).json()["items"].as_u64() {
            Some(1_200) => Ok(()),
            items => Err(format!("{items:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_begins_anew_while_a_rebuild_is_waited_for_is_read_again() {
    let (mut redis, guard) = filled().await;
    drop(guard);
    let url = redis.url();
    // The program is there before somebody waits for it.
    assert_eq!(Ran::with(&["status", &url, "users"]).status, 0);
    let waits =
        tokio::task::spawn_blocking(move || Ran::with(&["rebuild", &url, "users", "--wait", "60"]));
    eventually("it is asked for", Duration::from_secs(20), || async {
        let asked: Option<String> = redis.run(&["HGET", "bg:{users}:meta", "asked"]);
        asked.map(drop).ok_or_else(|| "nothing is".to_owned())
    })
    .await;
    redis.restart();
    let guard = guard_over(&redis.url(), &Table::with(0..1_200)).build().unwrap();
    live(&guard).await;
    let ran = waits.await.unwrap();
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.out.trim_end().ends_with("s: a new filter is live: 1,200 ids"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_all_shards_are_asked_for_a_rebuild_at_once() {
    let nodes = cluster().await;
    let url = url(&nodes);
    let _guard = filled_shards(&url).await;
    let mut failed = Vec::new();
    for _ in 0..5 {
        // As the command does, it asks before it knows which shard is on which node.
        let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
        let builder = BloomGuard::builder("users", pattern).redis(&url);
        let asks = builder.shards(16).secret_key(SecretKey::new([7; 16])).build().unwrap();
        match asks.request_rebuild().await {
            Ok(()) => return,
            // On a busy machine it may take more than the second that a call has.
            Err(error) => failed.push(error),
        }
    }
    panic!("{failed:?}");
}
