//! What is wrong with a Redis is found, and what mends it is said; a sound one is called sound.

use std::time::Duration;

use redis::Value;
use support::eventually;
use support::redis_server::RedisServer;
use support::sentinel::Sentinel;

use super::{Ran, filled};

const SOON: Duration = Duration::from_secs(20);
const GUIDE: &str = include_str!("../../src/guide/redis.md");

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
        .filter(|finding| finding["level"] == "wrong")
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
    let kept = RedisServer::with(&["--appendonly", "yes"]);
    assert_eq!(Ran::with(&["doctor", &kept.url()]).status, 0);
}

#[test]
fn memory_that_does_not_do_is_found() {
    let evicts = RedisServer::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    finds("eviction", &evicts.url(), &[], "allkeys-lru", "noeviction");
    let tiny = RedisServer::with(&["--maxmemory", "3mb"]);
    finds("tiny", &tiny.url(), &[], "of 3.0 MiB are used", "Raise maxmemory");
    let short = RedisServer::with(&["--proto-max-bulk-len", "1mb"]);
    finds("strings", &short.url(), &[], "bit offset", "proto-max-bulk-len");
    let full = RedisServer::start();
    full.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let ran = Ran::with(&["doctor", &full.url()]);
    assert!(
        ran.status == 1 && ran.out.contains("OOM") && ran.out.contains("free memory"),
        "{ran:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_is_there_needs_room_for_the_next() {
    let redis = RedisServer::start();
    let table = support::model::Table::with(0..1_000);
    let guard = support::model::guard_over(&redis.url(), &table).capacity(8_000_000, 0.001);
    let guard = guard.build().unwrap();
    support::model::live(&guard).await;
    let info: String = redis.run(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = used.trim().parse::<u64>().unwrap() + (8 << 20);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
    finds("room", &redis.url(), &["users"], "a rebuild needs", "CONFIG SET maxmemory");
}

#[test]
fn rights_and_commands_that_are_missing_are_found() {
    let lacks = RedisServer::with(&user(&["-bitfield", "-xtrim"]));
    let mend = "ACL SETUSER guard +bitfield +xtrim";
    finds("rights", &with_password(&lacks), &["users"], "may not run bitfield, xtrim", mend);
    finds("password", &lacks.url().replace("//", "//guard:no@"), &[], "WRONGPASS", "credentials");
    let enough = RedisServer::with(&user(&[]));
    finds("keys", &with_password(&enough), &["orders"], "keys bg:{orders}:*", "~bg:{orders}:*");
    let database = format!("{}3", with_password(&enough));
    finds("database", &database, &["users"], "another database", "ACL SETUSER guard +select");
    let silent = RedisServer::with(&user(&["-info"]));
    finds("info", &with_password(&silent), &["users"], "may not run info", "+info");
    let renamed =
        RedisServer::with(&["--rename-command", "BITFIELD", "", "--rename-command", "XADD", ""]);
    finds("renamed", &renamed.url(), &[], "does not know BITFIELD, XADD", "rename-command");
    let closed = RedisServer::start();
    closed.run::<()>(&["CONFIG", "SET", "requirepass", "secret"]);
    finds("no password", &closed.url(), &[], "the URL has none", "redis://:PASSWORD@HOST:PORT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_no_primary_is_called_by_its_name_with_the_url_to_use() {
    let primary = RedisServer::start();
    let port = primary.port();
    let replica = RedisServer::with(&["--replicaof", &format!("127.0.0.1 {port}")]);
    let to = format!("redis://127.0.0.1:{port}");
    finds("replica", &replica.url(), &[], "it is a replica", &to);
    eventually("the replica is connected", SOON, || async {
        let role: Vec<Value> = primary.run(&["ROLE"]);
        let replicas = format!("{:?}", role.get(2));
        if replicas.contains("127.0.0.1") { Ok(()) } else { Err(replicas) }
    })
    .await;
    finds("failover", &primary.url(), &[], "two primaries", "min-replicas-to-write 1");
    let sentinel = Sentinel::start("mymaster", port, Duration::from_secs(60), &[]);
    let at = format!("127.0.0.1:{}", sentinel.port());
    let to = format!("redis+sentinel://{at},…/mymaster");
    finds("sentinel", &format!("redis://{at}"), &[], "it is a Sentinel", &to);
    let node = RedisServer::with(&["--cluster-enabled", "yes"]);
    let to = format!("redis+cluster://127.0.0.1:{}", node.port());
    finds("cluster", &node.url(), &[], "a node of a cluster", &to);
    let alone = RedisServer::with(&["--min-replicas-to-write", "1"]);
    finds("isolated", &alone.url(), &[], "NOREPLICAS", "min-replicas-to-write");
}
