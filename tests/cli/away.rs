//! What reads a filter of which Redis has only a part: a node of a cluster is away, or there is no memory for an answer.

use std::time::Duration;

use bloom_guard::{BloomGuard, Mode, SecretKey};
use support::eventually;
use support::model::{Table, guard_over};
use support::redis_server::RedisServer;
use tokio::time::timeout;

use super::{Ran, filled};

const SLOTS: usize = 16_384;
const SHARDS: u32 = 16;
const KEY: [u8; 16] = [7; 16];
const PATIENCE: Duration = Duration::from_secs(30);

/// Three primaries without replicas. Each goes on where another is away.
pub(crate) async fn cluster() -> Vec<RedisServer> {
    let start = |_| {
        RedisServer::with(&["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"])
    };
    let nodes: Vec<RedisServer> = (0..3).map(start).collect();
    for (index, node) in nodes.iter().enumerate() {
        let slots = index * SLOTS / 3..(index + 1) * SLOTS / 3;
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
        node.run::<()>(&words.collect::<Vec<_>>());
        node.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        node.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port().to_string()]);
    }
    for node in &nodes {
        eventually("all slots are served", PATIENCE, || async {
            let said: String = node.run(&["CLUSTER", "INFO"]);
            if said.contains("cluster_slots_ok:16384") { Ok(()) } else { Err(said) }
        })
        .await;
    }
    nodes
}

pub(crate) fn url(nodes: &[RedisServer]) -> String {
    let hosts: Vec<String> =
        nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

pub(crate) async fn filled_shards(url: &str) -> BloomGuard {
    let builder = guard_over(url, &Table::with(0..1_000)).secret_key(SecretKey::new(KEY));
    let guard = builder.shards(SHARDS).build().unwrap();
    let ready = timeout(PATIENCE, guard.ready()).await;
    assert!(ready.is_ok(), "{}", guard.state());
    guard
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_cluster_without_a_node_it_says_what_the_other_nodes_have() {
    let mut nodes = cluster().await;
    let url = url(&nodes);
    let _guard = filled_shards(&url).await;
    let key: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = [("BLOOM_GUARD_SECRET_KEY", key.as_str())];
    let ran = |words: &[&str]| Ran::fed(&[&["--json"], words].concat(), "", &key);
    let before = ran(&["status", &url, "users"]).json();
    assert_eq!((before["shards"]["live"].as_u64(), &before["away"]), (Some(16), &().into()));
    nodes[1].kill();
    let watched = std::thread::spawn({
        let url = url.clone();
        move || Ran::with(&["--json", "watch", &url, "users", "--count", "25"])
    });
    tokio::time::sleep(Duration::from_secs(4)).await;
    nodes[1].restart();
    let watched = watched.join().unwrap();
    let live = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["shards"]["live"].as_u64()
    };
    let live: Vec<Option<u64>> = watched.out.lines().map(live).collect();
    assert!(live[0].is_some_and(|live| live < 16), "{live:?}");
    assert_eq!(live.last(), Some(&Some(16)), "{live:?}");
    drop(nodes.remove(1));
    let after = ran(&["status", &url, "users"]);
    let value = after.json();
    let live = value["shards"]["live"].as_u64().unwrap();
    assert!(after.status == 1 && (4..16).contains(&live), "{after:?}");
    let away = value["away"].as_str().unwrap();
    assert!(away.contains("connection refused") || away.contains("Connection refused"), "{away}");
    assert_eq!(value["processes"].as_array().map(Vec::len), Some(1), "{after:?}");
    let keys = || nodes.iter().map(|node| node.keys().len()).sum::<usize>();
    let before = keys();
    for words in [&["drop", &url, "users", "--yes"][..], &["rebuild", &url, "users"]] {
        let ran = ran(words);
        assert!(ran.status > 1 && format!("{ran:?}").contains("cannot be reached"), "{ran:?}");
    }
    assert_eq!(keys(), before);
    let ids: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    let words: Vec<&str> =
        ["check", &url, "users"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    let checked = ran(&words).json();
    let of = |fate: &str| {
        let ids = checked["ids"].as_array().unwrap();
        ids.iter().filter(|id| id["request"] == fate).count()
    };
    assert!(of("passes") > 40 && of("lane") > 10, "{checked}");
    assert_eq!(of("passes") + of("lane"), 200, "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_processes_change_their_mode_while_a_node_is_away_and_it_takes_that_when_it_is_back() {
    let mut nodes = cluster().await;
    let url = url(&nodes);
    let guard = filled_shards(&url).await;
    let key: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    nodes[1].kill();
    let words = ["mode", &url, "users", "off"];
    let ran = Ran::fed(&words, "", &[("BLOOM_GUARD_SECRET_KEY", key.as_str())]);
    assert!(ran.status == 0 && ran.out.contains("takes it when it is back"), "{ran:?}");
    let acts = || async {
        if guard.mode() == Mode::Off { Ok(()) } else { Err(guard.state().to_string()) }
    };
    eventually("the process acts so", PATIENCE, acts).await;
    nodes[1].restart();
    eventually("its shards have it", PATIENCE, || async {
        let modes: Vec<Option<String>> = nodes[1]
            .keys()
            .iter()
            .filter(|key| key.ends_with(":meta"))
            .map(|key| nodes[1].run(&["HGET", key, "mode"]))
            .collect();
        let off = modes.iter().flatten().filter(|mode| mode.as_str() == "o").count();
        if off > 0 && off == modes.len() { Ok(()) } else { Err(format!("{modes:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_has_no_memory_left_refuses_nothing_and_it_says_so() {
    let (redis, _guard) = filled().await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let status = Ran::with(&["status", &redis.url(), "users"]);
    status.is_as_kept("status_full");
    let check = Ran::with(&["--json", "check", &redis.url(), "users", "777777"]);
    assert_eq!(check.json()["ids"][0]["request"], "lane", "{check:?}");
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    let check = Ran::with(&["--json", "check", &redis.url(), "users", "777777"]);
    assert_eq!(check.json()["ids"][0]["request"], "refused", "{check:?}");
}
