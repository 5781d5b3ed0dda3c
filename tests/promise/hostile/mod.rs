//! Operators, failovers and other processes at their worst: nothing that was acknowledged is refused.

mod apart;
mod clocks;
mod other_keys;
mod other_servers;
mod replaced;
mod rewound;
mod sizes;
mod times;

use std::time::Duration;

use bloom_guard::BloomGuard;
use support::eventually;
use support::model::{Table, guard, guard_over, live};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";
const META: &str = "bg:{users}:meta";

/// A process that trusts a filter which nobody rebuilds: whoever built it has gone.
async fn witness(redis: &RedisServer, table: &Table) -> BloomGuard {
    let builder = guard_over(&redis.url(), table).build().unwrap();
    live(&builder).await;
    drop(builder);
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;
    witness
}

/// Waits until so much time has passed by Redis's clock.
pub(crate) async fn passes(redis: &RedisServer, time: Duration) {
    let now = || {
        let (seconds, micros): (u64, u64) = redis.run(&["TIME"]);
        Duration::from_micros(seconds * 1_000_000 + micros)
    };
    let begun = now();
    eventually("time passes", time * 4, || async {
        let passed = now() - begun;
        if passed >= time { Ok(()) } else { Err(format!("{passed:?}")) }
    })
    .await;
}
