//! What reads a filter of which a part is away: a node of a cluster.

use std::time::Duration;

use bloom_guard::{BloomGuard, SecretKey};
use support::eventually;
use support::model::{Table, guard_over};
use support::redis_server::RedisServer;
use tokio::time::timeout;

use super::Ran;

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
        node.serves_part(index, 3);
        node.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port().to_string()]);
    }
    for node in &nodes {
        eventually("all slots are served", PATIENCE, || async {
            let said: String = node.run(&["CLUSTER", "INFO"]);
            let is_up =
                ["cluster_state:ok", "cluster_slots_ok:16384"].iter().all(|up| said.contains(up));
            if is_up { Ok(()) } else { Err(said) }
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
    let ran = |words: &[&str], more: &[&str]| {
        let words = [&["--json"], words, &[&url, "users", "--shards", "16"], more].concat();
        Ran::fed(&words, "", &key)
    };
    let live = |value: &serde_json::Value| value["state"]["shards"]["live"].as_u64();
    assert_eq!(live(&ran(&["status"], &[]).json()), Some(16));
    drop(nodes.remove(1));
    let after = ran(&["status"], &[]);
    let value = after.json();
    assert!(after.status == 1 && live(&value).is_some_and(|live| live < 16), "{after:?}");
    let trouble = value["state"]["trouble"].to_string();
    assert!(trouble.contains("onnection refused"), "{trouble}");
    assert_eq!(value["fleet"]["processes"].as_array().map(Vec::len), Some(1), "{after:?}");
    let ids: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let checked = ran(&["check"], &ids).json();
    let of = |fate: &str| checked["ids"].to_string().matches(fate).count();
    let (passes, lane) = (of("\"request\":\"let through"), of("\"request\":\"not refused"));
    assert!(passes > 40 && lane > 10 && passes + lane == 200, "{passes} {lane}: {checked}");
}
