//! What is wrong with a Redis is found, and what mends it is said; a sound one is called sound.

use std::time::Duration;

use bloom_guard::SecretKey;
use redis::Value;
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

use super::away::{cluster, filled_shards, url};
use super::{Ran, filled};

const SOON: Duration = Duration::from_secs(20);
const GUIDE: &str = include_str!("../../src/guide/redis.md");
const LISTED: &str = "the rights that the guide lists";

/// The words behind `ACL SETUSER` in the guide, and further ones.
fn user(more: &[&'static str]) -> Vec<&'static str> {
    let begins = GUIDE.find("ACL SETUSER ").expect("the guide lists the rights");
    let command = GUIDE[begins..].split("```").next().expect("a block of code");
    let words = command.split_whitespace().skip(2).chain(more.iter().copied());
    ["--user"].into_iter().chain(words).collect()
}

/// Runs the doctor, who has to find this and nothing else that is wrong, and to say that it mends it.
fn finds(name: &str, url: &str, filter: &[&str], wrong: &str, mend: &str) {
    let words: Vec<&str> = ["--json", "doctor", url].iter().chain(filter).copied().collect();
    let ran = Ran::with(&words);
    assert_eq!(ran.status, 1, "{name}: {ran:?}");
    let json = ran.json();
    let findings = json["findings"].as_array().expect("a list");
    let found: Vec<(&str, &str)> = findings
        .iter()
        .map(|finding| (finding["what"].as_str().unwrap(), finding["mend"].as_str().unwrap()))
        .collect();
    let [(what, by)] = found[..] else { panic!("{name}: {found:?}") };
    assert!(what.contains(wrong) && by.contains(mend), "{name}: {what}: {by}");
}

fn with_password(redis: &RedisServer) -> String {
    format!("redis://guard:password@127.0.0.1:{}/", redis.port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sound_redis_is_called_sound_and_keeps_no_key_of_the_doctor() {
    let (redis, _guard) = filled().await;
    let before = redis.keys();
    Ran::with(&["doctor", &redis.url(), "users"]).is_as_kept("doctor_sound");
    assert_eq!(redis.keys(), before);
    let limited = RedisServer::with(&user(&[]));
    let ran = Ran::with(&["doctor", &with_password(&limited), "users"]);
    assert_eq!(ran.status, 0, "the rights that the guide lists are enough: {ran:?}");
}

#[test]
fn memory_that_does_not_do_is_found() {
    let evicts = RedisServer::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    finds("eviction", &evicts.url(), &["users"], "allkeys-lru", "noeviction");
    let short = RedisServer::with(&["--proto-max-bulk-len", "1mb"]);
    finds("strings", &short.url(), &["users"], "bit offset", "proto-max-bulk-len");
    let full = RedisServer::start();
    full.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let ran = Ran::with(&["doctor", &full.url(), "users"]);
    assert!(
        ran.status == 1 && ran.out.contains("OOM") && ran.out.contains("free memory"),
        "{ran:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_is_not_to_be_trusted_is_found() {
    let (redis, guard) = filled().await;
    drop(guard);
    // A reserved byte, which is zero in every whole filter.
    redis.run::<i64>(&["SETRANGE", "bg:{users}:bits", "13", "x"]);
    finds("damaged", &redis.url(), &["users"], "no whole filter", "A rebuild replaces");
    redis.run::<i64>(&["DEL", "bg:{users}:bits"]);
    finds("gone", &redis.url(), &["users"], "is gone", "FLUSHALL");
    redis.run::<i64>(&["DEL", "bg:{users}:fleet"]);
    redis.run::<i64>(&["SADD", "bg:{users}:fleet", "mine"]);
    finds("foreign", &redis.url(), &["users"], "WRONGTYPE", "");
    let replaced = RedisServer::start();
    let guard =
        guard_over(&replaced.url(), &Table::with(0..10)).secret_key(SecretKey::new([7; 16]));
    let guard = guard.build().unwrap();
    live(&guard).await;
    let words = ["--json", "doctor", &replaced.url(), "users"];
    let ran = Ran::fed(&words, "", &[("BLOOM_GUARD_SECRET_KEY", &"ab".repeat(16))]);
    assert!(
        ran.status == 1 && ran.out.contains("Give all processes the same secret_key"),
        "{ran:?}"
    );
}

#[test]
fn rights_and_commands_that_are_missing_are_found() {
    let lacks = RedisServer::with(&user(&["-bitfield", "-zrange"]));
    let mend = "ACL SETUSER guard +bitfield +zrange";
    finds("rights", &with_password(&lacks), &["users"], "lacks some of the rights", mend);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock").display().to_string();
    let options = [vec!["--unixsocket", &socket], user(&["-bitfield", "-zrange"])].concat();
    let _lacks = RedisServer::with(&options);
    let url = format!("redis+unix://{socket}?user=guard&pass=password");
    finds("rights at a socket", &url, &["users"], "lacks some of the rights", mend);
    finds(
        "password",
        &lacks.url().replace("//", "//guard:no@"),
        &["users"],
        "WRONGPASS",
        "credentials",
    );
    let enough = RedisServer::with(&user(&[]));
    finds("keys", &with_password(&enough), &["orders"], "permissions to access", LISTED);
    let database = format!("{}3", with_password(&enough));
    finds("database", &database, &["users"], "run the 'select'", LISTED);
    let silent = RedisServer::with(&user(&["-info"]));
    finds("info", &with_password(&silent), &["users"], "run the 'info'", LISTED);
    let renamed = RedisServer::with(&["--rename-command", "ZADD", ""]);
    finds("renamed", &renamed.url(), &["users"], "unknown command 'ZADD'", "neither rename");
    let closed = RedisServer::start();
    closed.run::<()>(&["CONFIG", "SET", "requirepass", "secret"]);
    finds("no password", &closed.url(), &["users"], "NOAUTH", "credentials");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rights_are_tried_on_the_keys_of_all_shards() {
    const SHARDS: [&str; 3] = ["users", "--shards", "16"];
    let redis = RedisServer::with(&user(&["resetkeys", "~bg:{users#*"]));
    let _guard = filled_shards(&redis.url()).await;
    let url = with_password(&redis);
    let words = [&["doctor", &url], &SHARDS[..]].concat();
    let ran = Ran::fed(&words, "", &[("BLOOM_GUARD_SECRET_KEY", &"07".repeat(16))]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let one = RedisServer::with(&user(&["resetkeys", "~bg:{users}:*"]));
    finds("shards", &with_password(&one), &SHARDS, "permissions to access", LISTED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_a_cluster_each_primary_is_judged_that_the_filter_is_on() {
    let mut nodes = cluster().await;
    let url = url(&nodes);
    let doctor = |filter: &[&str]| Ran::with(&[&["doctor", &url], filter].concat());
    let shards = ["users", "--shards", "16"];
    let ran = doctor(&shards);
    assert_eq!(ran.status, 0, "{ran:?}");
    for node in &nodes {
        node.run::<()>(&["CONFIG", "SET", "maxmemory", "100mb"]);
        node.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let evicts = format!("127.0.0.1:{}: maxmemory-policy allkeys-lru", node.port());
        finds("eviction", &url, &shards, &evicts, "noeviction");
        // Of a filter in one slot its node alone says whether it is sound.
        let is_home = node.try_run::<Option<String>>(&["GET", "bg:{one}:fleet"]).is_ok();
        let one = doctor(&["one"]);
        assert_eq!(one.out.contains("allkeys-lru"), is_home, "{one:?}");
        node.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        node.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    }
    nodes[2].kill();
    let ran = doctor(&shards);
    let away = format!("wrong: 127.0.0.1:{}: ", nodes[2].port());
    assert!(ran.status == 1 && ran.out.contains(&away), "{ran:?}");
    assert_eq!(ran.out.matches("wrong:").count(), 1, "the others are sound: {ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_no_primary_is_called_by_its_name() {
    let primary = RedisServer::start();
    let port = primary.port();
    let replica = RedisServer::with(&["--replicaof", &format!("127.0.0.1 {port}")]);
    finds("replica", &replica.url(), &["users"], "not a primary", "primary");
    eventually("the replica is connected", SOON, || async {
        let role: Vec<Value> = primary.run(&["ROLE"]);
        let replicas = format!("{:?}", role.get(2));
        if replicas.contains("127.0.0.1") { Ok(()) } else { Err(replicas) }
    })
    .await;
    finds("failover", &primary.url(), &["users"], "two primaries", "min-replicas-to-write 1");
    let node = RedisServer::with(&["--cluster-enabled", "yes"]);
    finds("cluster", &node.url(), &["users"], "a node of a cluster", "");
    let alone = RedisServer::with(&["--min-replicas-to-write", "1"]);
    finds("isolated", &alone.url(), &["users"], "NOREPLICAS", "min-replicas-to-write");
}
