//! Each command at each kind of Redis that an operator meets.

use support::redis_server::RedisServer;

use super::away::{cluster, filled_shards, url};
use super::command::is_as_kept;
use super::{Ran, filled};

/// All that ask a Redis, as an operator would try them. `URL` stands for where it is.
const COMMANDS: [&[&str]; 6] = [
    &["doctor", "URL", "users"],
    &["status", "URL", "users"],
    &["check", "URL", "users", "7", "777777"],
    &["verify", "URL", "users"],
    &["mode", "URL", "users", "shadow"],
    &["rebuild", "URL", "users"],
];

/// Compares what the commands say there with what is kept.
fn all_say_what_is_kept(name: &str, url: &str, but: &[&str]) {
    let key = [("BLOOM_GUARD_SECRET_KEY", "07070707070707070707070707070707")];
    let (key, shards) = match name {
        "cluster" => (&key[..], &["--shards", "16"][..]),
        _ => (&[][..], &[][..]),
    };
    let mut said = String::new();
    for words in COMMANDS.into_iter().filter(|words| !but.contains(&words[0])) {
        said.push_str(&format!("$ bloom-guard {}\n", words.join(" ")));
        let words = words.iter().map(|word| if *word == "URL" { url } else { *word });
        let words: Vec<&str> = words.chain(shards.iter().copied()).collect();
        said.push_str(&Ran::fed(&words, "7\n777777\n", key).said());
    }
    is_as_kept(&format!("at_{name}"), &said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_redis() {
    let (redis, _guard) = filled().await;
    all_say_what_is_kept("sound", &redis.url(), &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_memory() {
    let (redis, _guard) = filled().await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    all_say_what_is_kept("full", &redis.url(), &[]);
}

#[test]
fn a_redis_that_is_down_or_empty_or_gives_too_few_rights() {
    all_say_what_is_kept("down", "redis://127.0.0.1:1/", &[]);
    all_say_what_is_kept("empty", &RedisServer::start().url(), &[]);
    let redis = RedisServer::with(&["--user", "few", "on", ">password", "~*", "-@all", "+info"]);
    let url = format!("redis://few:password@127.0.0.1:{}/", redis.port());
    all_say_what_is_kept("few_rights", &url, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster() {
    let nodes = cluster().await;
    let url = url(&nodes);
    let _guard = filled_shards(&url).await;
    all_say_what_is_kept("cluster", &url, &[]);
}
