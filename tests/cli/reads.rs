//! What only reads: `check`, `verify`, `status`, `watch`.

use bloom_guard::{BloomGuard, SecretKey};
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

use super::Ran;

/// A filter of ids 0 to 999, and the server that it is on.
pub(crate) async fn filled() -> (RedisServer, BloomGuard) {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&guard).await;
    (redis, guard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn it_says_of_each_id_whether_it_is_refused_and_why() {
    let (redis, guard) = filled().await;
    guard.insert(&5_000).await.unwrap();
    Ran::with(&["check", &redis.url(), "users", "7", "5000", "777777"]).is_as_kept("check");
}
