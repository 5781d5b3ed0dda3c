//! A filter that another system writes, trusted by the command.

use std::time::Duration;

use bloom_guard::{ForeignFilter, Verdict};
use support::eventually;
use support::model::{foreign_guard, live};
use support::redis_server::RedisServer;

use super::Ran;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_systems_filter_is_trusted_by_right_numbers_only_and_then_by_every_process() {
    let redis = RedisServer::start();
    let url = redis.url();
    let bits = 200_000;
    let filter = ForeignFilter::go_zero("bloom:users", bits);
    let guard = foreign_guard(&url).foreign(filter).build().unwrap();
    eventually("it is connected", Duration::from_secs(20), || async {
        guard
            .insert_many(&(0..1_000).collect::<Vec<u64>>())
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    let (bits, half) = (bits.to_string(), (bits / 2).to_string());
    let ids = |ids: std::ops::Range<u64>| ids.map(|id| format!("{id}\n")).collect::<String>();
    let trust = |bits: &str, ids: String, yes: bool| {
        let words = ["trust", &url, "go-zero", "bloom:users", "--bits", bits, "--yes"];
        let words: Vec<&str> = words.into_iter().filter(|word| yes || *word != "--yes").collect();
        Ran::fed(&words, &ids, &[])
    };
    for (name, status, ran) in [
        ("trust_asked", 2, trust(&bits, ids(0..100), false)),
        ("trust_other_bits", 1, trust(&half, ids(0..100), true)),
        ("trust_missing", 1, trust(&bits, ids(990..1_100), true)),
        ("trust_few", 1, trust(&bits, String::new(), true)),
    ] {
        assert_eq!(ran.status, status, "{name}: {ran:?}");
        ran.is_as_kept(name);
        assert!(guard.state().live.is_err(), "{name}");
    }
    trust(&bits, format!("\u{feff}{}", ids(0..100)), true).is_as_kept("trust");
    live(&guard).await;
    for id in 0..1_000_u64 {
        assert!(!matches!(guard.check(&id).await.unwrap(), Verdict::Absent(_)), "{id}");
    }
}
