//! What rebuilds leave in Redis.

use std::time::Duration;

use bloom_guard::Verdict;
use support::eventually;
use support::model::{Table, brief, get, guard_over, live};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";
const RECENT: &str = "bg:{users}:recent";

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
    assert_eq!(others, [BITS, "bg:{users}:fleet", RECENT]);
    assert_eq!(nulls.len(), 1);
    for key in others {
        assert_eq!(redis.run::<i64>(&["TTL", key]), -1, "{key}");
    }
    for key in nulls {
        assert_eq!(key.len(), "bg:{users}:null:".len() + 32);
        assert!(redis.run::<i64>(&["TTL", key]) > 0, "{key}");
    }
}

/// A replica, and a log of all writes.
#[tokio::test]
async fn an_upload_is_replicated_once_and_logged_once() {
    // With `everysec` a write waits while the one before is being synced.
    let log = ["--appendonly", "yes", "--appendfsync", "no"];
    let redis = RedisServer::with(&[&log[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let primary = redis.port().to_string();
    let replica = RedisServer::with(&["--replicaof", "127.0.0.1", &primary]);
    let info = |redis: &RedisServer, section: &str, field: &str| {
        let info: String = redis.run(&["INFO", section]);
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_default().to_owned()
    };
    eventually("the replica follows", Duration::from_secs(20), || async {
        let status = info(&replica, "replication", "master_link_status");
        if status == "up" { Ok(()) } else { Err(status) }
    })
    .await;
    let table = Table::with(0..100_000);
    let guard = guard_over(&redis.url(), &table).capacity(1_000_000, 0.001).build().unwrap();
    live(&guard).await;
    let number = |section, field| info(&redis, section, field).parse::<f64>().unwrap();
    let offset = || number("replication", "master_repl_offset");
    let logged = || number("persistence", "aof_current_size");
    let before = [offset(), logged()];
    guard.rebuild_now().await.unwrap();
    let bytes = guard.state().live.unwrap().bytes as f64;
    let ratios = [offset() - before[0], logged() - before[1]].map(|grown| grown / bytes);
    assert!(bytes > 1e6 && ratios.iter().all(|ratio| (0.99..1.1).contains(ratio)), "{ratios:?}");
}

#[tokio::test]
async fn a_rebuild_ends_beside_inserts_that_never_pause() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.insert_many(5_000..5_128_u64).await.unwrap();
    // Always the same ones: the record stays small, and each time it is read there are new numbers.
    let inserting = (0..16).map(|_| async {
        loop {
            guard.insert_many(5_000..5_128_u64).await.unwrap();
        }
    });
    tokio::select! {
        report = guard.rebuild_now() => assert!(report.unwrap().recent > 0),
        _ = futures_util::future::join_all(inserting) => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => panic!("it reads on and on"),
    }
}

/// An insert was acknowledged, the record of it is lost, and a rebuild begins before its transaction ends.
#[tokio::test]
async fn a_scan_waits_for_the_transactions_of_inserts_that_the_record_has_lost() {
    const OPEN: [u64; 2] = [4_711, 4_712];
    type Loss = fn(&RedisServer);
    let losses: [Loss; 3] = [
        |redis| redis.run(&["DEL", RECENT]),
        // The last insert is left, and no floor.
        |redis| redis.run(&["ZREMRANGEBYRANK", RECENT, "0", "-2"]),
        // The floor is left, and the last insert is not.
        |redis| redis.run(&["ZREMRANGEBYRANK", RECENT, "-1", "-1"]),
    ];
    for (number, loses) in losses.into_iter().enumerate() {
        let redis = RedisServer::start();
        let table = Table::with(0..1_000);
        let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
        live(&guard).await;
        guard.insert_many(OPEN).await.unwrap();
        loses(&redis);
        let committing = async {
            tokio::time::sleep(Duration::from_millis(800)).await;
            OPEN.into_iter().for_each(|id| table.commit(id));
        };
        let (report, ()) = tokio::join!(guard.rebuild_now(), committing);
        assert!(report.unwrap().took > Duration::from_secs(1), "{number}: it waits");
        for id in OPEN {
            assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{number}: {id}");
        }
    }
}
