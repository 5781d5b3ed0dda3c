//! How long it takes until guards insert again that all lost their connections at once, as when Redis restarts.
//!
//! `cargo bench -p bloom-guard-tests --bench reconnect`; `GUARDS` says how many guards, `SHARDS` in how many shards, and `INSERTS`
//! how many ids each has inserted before, which it inserts again.

use std::time::Duration;

use bloom_guard::{BloomGuard, SecretKey};
use futures_util::future::join_all;
use support::model::guard;
use support::redis_server::RedisServer;
use tokio::time::{Instant, sleep, timeout};

/// After this it is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// For how long it is looked at how inserts fare from then on, and how often.
const WATCHED: Duration = Duration::from_secs(20);
const EVERY: Duration = Duration::from_millis(100);

/// How many inserts of a guard fail, of how many.
async fn watched(guard: &BloomGuard) -> (u32, u32) {
    let (begun, mut failed, mut all) = (Instant::now(), 0, 0);
    while begun.elapsed() < WATCHED {
        failed += u32::from(guard.insert(&8_u64).await.is_err());
        all += 1;
        sleep(EVERY).await;
    }
    (failed, all)
}

/// Waits until a guard inserts.
async fn inserts(guard: &BloomGuard) {
    while guard.insert(&7_u64).await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::main]
async fn main() {
    let (guards, shards) = (number("GUARDS", 40), number("SHARDS", 256));
    let before = number("INSERTS", 0);
    let mut redis = RedisServer::start();
    let build = |_| {
        let guard = guard(&redis.url()).capacity(1_000_000, 0.01).shards(shards);
        guard.secret_key(SecretKey::new([7; 16])).copy_limit(0).build().expect("it can be built")
    };
    let mut all = Vec::new();
    for number in 0..guards {
        let guard = build(number);
        inserts(&guard).await;
        let first = u64::from(number) << 32;
        guard.insert_many(first..first + u64::from(before)).await.expect("redis is there");
        all.push(guard);
    }
    let tried = timeout(PATIENCE, async {
        redis.restart();
        let begun = Instant::now();
        let each = all.iter().map(async |guard| {
            inserts(guard).await;
            begun.elapsed()
        });
        join_all(each).await
    });
    match tried.await {
        Ok(mut took) => {
            took.sort();
            let (median, last) = (took[took.len() / 2], took[took.len() - 1]);
            println!(
                "{guards} guards, {shards} shards: half insert after {median:.1?}, all after {last:.1?}"
            );
            let watched = join_all(all.iter().map(watched)).await;
            let sum = |of: fn(&(u32, u32)) -> u32| watched.iter().map(of).sum::<u32>();
            println!(
                "{before} ids of each inserted again: of {} inserts {} failed within {WATCHED:?} from then on",
                sum(|(_, all)| *all),
                sum(|(failed, _)| *failed)
            );
        }
        Err(_) => println!("{guards} guards, {shards} shards: not all insert after {PATIENCE:?}"),
    }
}
