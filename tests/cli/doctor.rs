//! What is wrong with a Redis is found, and what mends it is said; a sound one is called sound.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, SecretKey};
use redis::Value;
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;
use support::sentinel::Sentinel;

use super::away::{cluster, filled_shards, url};
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

#[test]
fn a_disk_that_takes_nothing_is_found() {
    let redis = RedisServer::with(&["--save", "3600 1000000"]);
    // A directory is where the dump has to go.
    let directory: Vec<String> = redis.run(&["CONFIG", "GET", "dir"]);
    std::fs::create_dir(format!("{}/dump.rdb", directory[1])).unwrap();
    redis.run::<()>(&["SET", "mine", "1"]);
    // A new connection's PING is refused, too.
    let mut connection = redis.connection();
    redis.run::<String>(&["BGSAVE"]);
    let begun = Instant::now();
    loop {
        let info: String = redis::cmd("INFO").arg("persistence").query(&mut connection).unwrap();
        if info.contains("rdb_last_bgsave_status:err") {
            break;
        }
        assert!(begun.elapsed() < SOON, "{info}");
        thread::sleep(Duration::from_millis(2));
    }
    finds("disk", &redis.url(), &[], "MISCONF", "room on its disk");
}

/// A server that tells this in its INFO, and nothing else to any command.
fn tells(info: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis://127.0.0.1:{}/", listener.local_addr().expect("an address").port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut bytes = [0; 4_096];
            while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
                let reply = format!("${}\r\n{info}\r\n", info.len());
                stream.write_all(reply.as_bytes()).ok();
            }
        }
    });
    url
}

#[test]
fn a_server_that_is_too_old_is_found() {
    let url = tells("redis_version:5.0.14\r\nredis_mode:standalone\r\nrole:master\r\n");
    finds("old", &url, &[], "version 5.0.14 is too old", "Redis 6.2 or later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_is_not_to_be_trusted_is_found() {
    let (redis, guard) = filled().await;
    drop(guard);
    redis.run::<i64>(&["SETRANGE", "bg:{users}:bits", "30", "x"]);
    finds("damaged", &redis.url(), &["users"], "foreign or damaged", "A rebuild replaces");
    redis.run::<i64>(&["DEL", "bg:{users}:bits"]);
    finds("gone", &redis.url(), &["users"], "is gone", "FLUSHALL");
    redis.run::<i64>(&["DEL", "bg:{users}:meta"]);
    redis.run::<i64>(&["SADD", "bg:{users}:meta", "mine"]);
    finds("foreign", &redis.url(), &["users"], "WRONGTYPE", "has another type");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_is_there_needs_room_for_the_next() {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).capacity(8_000_000, 0.001);
    let guard = guard.build().unwrap();
    live(&guard).await;
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

/// A user with the guide's rights on these keys, at a server with a filter in 16 shards.
async fn in_shards(keys: &'static str) -> (RedisServer, BloomGuard) {
    let redis = RedisServer::with(&user(&["resetkeys", keys]));
    let guard = filled_shards(&redis.url()).await;
    (redis, guard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rights_are_tried_on_the_keys_of_all_shards() {
    let (redis, _guard) = in_shards("~bg:{users#*").await;
    let ran = Ran::with(&["doctor", &with_password(&redis), "users"]);
    assert!(ran.status == 0 && ran.out.contains("filter: live"), "{ran:?}");
    for keys in ["~bg:{users}:*", "~bg:{users#0/16}:*"] {
        let (redis, _guard) = in_shards(keys).await;
        let url = with_password(&redis);
        let of_all = "ACL SETUSER guard ~bg:{users#*";
        finds(keys, &url, &["users", "--shards", "16"], "keys bg:{users#*", of_all);
        let ran = Ran::with(&["doctor", &url, "users", "--shards", "16"]);
        assert!(!ran.out.contains("there is none"), "{ran:?}");
    }
    finds(
        "found",
        &with_password(&in_shards("~bg:{users#0/16}:*").await.0),
        &["users"],
        "keys bg:{users#*",
        "~bg:{users#*",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_a_user_may_not_see_is_not_called_absent() {
    let (redis, _guard) = in_shards("~bg:{users}:*").await;
    let url = with_password(&redis);
    Ran::with(&["doctor", &url, "users"]).is_as_kept("doctor_unseen");
    let status = Ran::with(&["status", &url, "users"]);
    assert!(status.status == 2 && status.err.contains("NOPERM"), "{status:?}");
    let one = guard_over(&redis.url(), &Table::with(0..10)).build().unwrap();
    live(&one).await;
    let ran = Ran::with(&["doctor", &url, "users"]);
    assert!(ran.status == 0 && ran.out.contains("filter: live"), "{ran:?}");
    for command in ["doctor", "status"] {
        let ran = Ran::with(&[command, &url, "users", "--shards", "16"]);
        assert!(!ran.out.contains("there is none"), "{ran:?}");
        assert!(ran.status > 0 && !format!("{ran:?}").contains("here is no filter"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_two_filters_of_a_name_the_doctor_asks_which() {
    let (redis, _guard) = filled().await;
    let _other = filled_shards(&redis.url()).await;
    let ran = Ran::with(&["doctor", &redis.url(), "users"]);
    assert!(ran.status == 2 && ran.err.contains("1 or 16 shards: say which"), "{ran:?}");
    for shards in ["1", "16"] {
        let ran = Ran::with(&["doctor", &redis.url(), "users", "--shards", shards]);
        assert!(ran.status == 0 && ran.out.contains("filter: live"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_a_cluster_each_primary_is_judged_that_the_filter_is_on() {
    let mut nodes = cluster().await;
    let url = url(&nodes);
    let _guard = filled_shards(&url).await;
    let ran = Ran::with(&["doctor", &url, "users"]);
    let of_all = ["cluster: 3 primaries", "server: version", "rights: all", "round trips"];
    assert_eq!(of_all.map(|what| ran.out.matches(what).count()), [1; 4], "{ran:?}");
    assert!(ran.status == 0 && !ran.out.contains("127.0.0.1"), "{ran:?}");
    for node in &nodes {
        node.run::<()>(&["CONFIG", "SET", "maxmemory", "100mb"]);
        node.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let evicts = format!("127.0.0.1:{}: memory: maxmemory-policy allkeys-lru", node.port());
        for filter in [&[][..], &["users"], &["new", "--shards", "4"]] {
            finds("eviction", &url, filter, &evicts, "noeviction");
        }
        // Of a filter in one slot its node alone says whether it is sound.
        let one = Ran::with(&["doctor", &url, "one"]);
        let is_home = node.try_run::<Option<String>>(&["GET", "bg:{one}:meta"]).is_ok();
        assert_eq!(one.out.contains("allkeys-lru"), is_home, "{one:?}");
        node.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        node.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    }
    nodes[1].run::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "yes"]);
    let covers =
        format!("127.0.0.1:{}: cluster: cluster-require-full-coverage yes", nodes[1].port());
    let ran = Ran::with(&["doctor", &url, "users"]);
    assert!(ran.status == 0 && ran.out.contains(&covers), "{ran:?}");
    nodes[2].kill();
    for filter in [&[][..], &["users"]] {
        let ran = Ran::with(&[&["doctor", &url], filter].concat());
        let away = format!("WRONG: 127.0.0.1:{}: ", nodes[2].port());
        assert!(ran.status == 1 && ran.out.contains(&away), "{ran:?}");
        for node in &nodes[..2] {
            let other = format!("sound: 127.0.0.1:{}: server: version", node.port());
            assert!(ran.out.contains(&other), "{ran:?}");
        }
    }
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
