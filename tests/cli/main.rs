//! The command `bloom-guard`, as its users run it: its output, its exit status, and what it leaves in Redis.

mod away;
mod changes;
mod command;
mod doctor;
mod everywhere;
mod incidents;
mod input;
mod reads;
mod trust;

use bloom_guard::BloomGuard;
use command::Ran;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

/// A filter of ids 0 to 999, and the server that it is on.
async fn filled() -> (RedisServer, BloomGuard) {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&guard).await;
    (redis, guard)
}

/// All that a server holds, but for when it was read.
fn all_of(redis: &RedisServer) -> Vec<(String, String)> {
    let dump = |key: String| {
        let dump: Vec<u8> = redis.run(&["DUMP", &key]);
        let dump = dump.iter().map(|byte| format!("{byte:02x}")).collect();
        (key, dump)
    };
    redis.keys().into_iter().map(dump).collect()
}
