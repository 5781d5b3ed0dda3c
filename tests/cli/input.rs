//! Bad input gets a sentence and a status.

use support::redis_server::RedisServer;

use super::{Ran, filled};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn bad_input_gets_a_sentence_and_a_status() {
    let (redis, _guard) = filled().await;
    let (url, away) = (redis.url(), "redis://127.0.0.1:1/");
    let long = "x".repeat(300);
    let empty = RedisServer::start();
    let limited = RedisServer::with(&["--user", "few", "on", ">password", "~*", "-@all", "+info"]);
    let user = empty.url().replacen("//", "//user@", 1);
    let few = format!("redis://few:password@127.0.0.1:{}/", limited.port());
    for (name, words, variables) in [
        ("no_such_filter", &["status", &url, "user"][..], &[][..]),
        ("empty_redis", &["status", &empty.url(), "users"], &[]),
        ("name", &["check", &url, "us{e}rs", "7"], &[]),
        ("id", &["check", &url, "users", &long], &[]),
        ("url", &["check", "http://x", "users", "7"], &[]),
        ("user", &["doctor", &user, "users"], &[]),
        ("no_ids", &["verify", &url, "users"], &[]),
        ("away", &["verify", away, "users"], &[]),
        ("away_doctor", &["doctor", away, "users"], &[]),
        ("few_rights", &["check", &few, "users", "7"], &[]),
        ("shards", &["status", &url, "users", "--shards", "4"], &[]),
        ("shards_three", &["doctor", &url, "users", "--shards", "3"], &[]),
        ("key", &["check", &url, "users", "7"], &[("BLOOM_GUARD_SECRET_KEY", "xyz")]),
        (
            "key_sign",
            &["check", &url, "users", "7"],
            &[("BLOOM_GUARD_SECRET_KEY", "+7070707070707070707070707070707")],
        ),
        ("variable", &["check", "-", "users", "7"], &[]),
        ("mode", &["mode", &url, "users", "of"], &[]),
        ("rebuild", &["rebuild", &url, "user"], &[]),
        ("trust_bits", &["trust", &url, "go-zero", "bloom:users", "--yes"], &[]),
        ("trust_no_bits", &["trust", &url, "go-zero", "bloom:users", "--bits", "0", "--yes"], &[]),
        ("trust_system", &["trust", &url, "gozero", "bloom:users"], &[]),
        ("trust_away", &["trust", away, "redisson", "users", "--yes"], &[]),
    ] {
        let ran = Ran::fed(words, "", variables);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{name}: {ran:?}");
        ran.is_as_kept(&format!("input_{name}"));
    }
    let ran = Ran::fed(&["check", "-", "users", "7"], "", &[("BLOOM_GUARD_URL", &url)]);
    assert_eq!(ran.status, 0, "{ran:?}");
}
