//! Rebuilds on Redis lose nothing, whatever else goes on.

mod cuts;
mod inserts;
mod keys;
mod lease;
mod scan;
mod wait;

use std::sync::Arc;

use bloom_guard::{BloomGuard, BoxError, IdSink, RebuildSource, Schedule};
use support::model::{Table, guard};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;

const BITS: &str = "bg:{users}:bits";
const NEXT: &str = "bg:{users}:next";
const LOCK: &str = "bg:{users}:lock";
const LOG: &str = "bg:{users}:log";
const META: &str = "bg:{users}:meta";

/// A table whose scan, once it has read everything, waits for a permit, and which then commits ids
/// that it no longer gives.
struct Late {
    table: Table,
    gate: Arc<Semaphore>,
    late: Vec<u64>,
}

impl RebuildSource for Late {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        RebuildSource::scan(&self.table, ids).await?;
        self.gate.acquire().await?.forget();
        for id in &self.late {
            self.table.commit(*id);
        }
        Ok(())
    }
}

/// A guard whose scans wait at their end, all but so many, until there is a permit for them; and which
/// rows each commits then.
fn held(
    redis: &RedisServer,
    table: &Table,
    scans: usize,
    late: &[u64],
) -> (BloomGuard, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(scans));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: late.to_vec() };
    (guard(&redis.url()).rebuild(Schedule::manual(), source).build().unwrap(), gate)
}

/// Redis's clock.
fn milliseconds(redis: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = redis.run(&["TIME"]);
    seconds * 1000 + micros / 1000
}
