//! What guards that nobody asks anything cost Redis: its CPU a second and process, and which commands it goes to.
//!
//! `cargo bench -p bloom-guard-tests --bench idle`

use std::collections::BTreeMap;
use std::time::Duration;

use support::model::{Table, guard, guard_over, live};
use support::redis_server::RedisServer;
use tokio::time::sleep;

const GUARDS: usize = 8;
const RUN: Duration = Duration::from_secs(20);

/// Redis's CPU time so far, s.
fn cpu(redis: &RedisServer) -> f64 {
    let info: String = redis.run(&["INFO", "cpu"]);
    let used = |field: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|value| value.parse().ok()).expect("redis says so")
    };
    used("used_cpu_sys:") + used("used_cpu_user:")
}

/// Calls and microseconds of each command so far.
fn commands(redis: &RedisServer) -> BTreeMap<String, (f64, f64)> {
    let info: String = redis.run(&["INFO", "commandstats"]);
    let lines = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    let field = |rest: &str, name: &str| -> f64 {
        let mut fields = rest.split(',').filter_map(|field| field.split_once('='));
        let value = fields.find(|(field, _)| *field == name).map(|(_, value)| value);
        value.and_then(|value| value.parse().ok()).expect("redis says so")
    };
    let read =
        |(name, rest): (&str, &str)| (name.to_owned(), (field(rest, "calls"), field(rest, "usec")));
    lines.map(read).collect()
}

#[tokio::main]
async fn main() {
    let redis = RedisServer::start();
    let before = cpu(&redis);
    sleep(RUN).await;
    let alone = (cpu(&redis) - before) / RUN.as_secs_f64();
    let table = Table::with(0..100_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    live(&first).await;
    let others: Vec<_> = (1..GUARDS).map(|_| guard(&redis.url()).build().unwrap()).collect();
    for guard in &others {
        live(guard).await;
    }
    sleep(Duration::from_secs(3)).await;
    let (cpu_before, before) = (cpu(&redis), commands(&redis));
    sleep(RUN).await;
    let (cpu_after, after) = (cpu(&redis), commands(&redis));
    let each = RUN.as_secs_f64() * GUARDS as f64;
    println!("| command | calls a second and process | µs of a call | µs a second and process |");
    println!("|---|---|---|---|");
    for (name, (calls, us)) in after {
        let (calls_before, us_before) = before.get(&name).copied().unwrap_or_default();
        let (calls, us) = (calls - calls_before, us - us_before);
        if calls > 0.0 {
            println!("| {name} | {:.2} | {:.1} | {:.0} |", calls / each, us / calls, us / each);
        }
    }
    let ms = 1000.0 * ((cpu_after - cpu_before) / each - alone / GUARDS as f64);
    println!(
        "CPU of Redis a second and process: {ms:.2} ms ({:.2} ms without any)",
        alone * 1000.0
    );
}
