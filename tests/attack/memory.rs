//! What a flood of ids leaves behind in this process and in Redis: alone in its process, whose memory it
//! measures.

use std::fs;

use http::{Request, StatusCode};
use support::model::{Strangers, Table, guard_over, handler, live};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;
use tower::{Layer, ServiceExt};

/// This process's resident memory.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line for it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// So many ids, none of them twice: nothing in this process or in Redis may grow with them.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_million_distinct_ids_leave_no_trace_in_memory() {
    const WARM: usize = 100_000;
    const MORE: usize = 400_000;
    const CLIENTS: usize = 64;
    const IDS: u64 = 100_000;
    let rate = 0.001;
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = guard_over(&redis.url(), &table).capacity(IDS, rate).build().unwrap();
    live(&guard).await;
    let flood = async |seed: u64, requests: usize| {
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (guard, table) = (guard.clone(), table.clone());
            clients.spawn(async move {
                let ids = Strangers(seed).skip(client).step_by(CLIENTS);
                let service = guard.layer(handler(&table));
                for id in ids.take(requests / CLIENTS) {
                    let uri = format!("/users/{id}");
                    let request = Request::get(uri).body(String::new()).unwrap();
                    let response = service.clone().oneshot(request).await.unwrap();
                    assert_eq!(response.status(), StatusCode::NOT_FOUND);
                }
            });
        }
        clients.join_all().await;
    };
    flood(5, WARM).await;
    let warm = resident_kib();
    flood(6, MORE).await;
    let after = resident_kib();
    let keys: u64 = redis.run(&["DBSIZE"]);
    let sent = (WARM + MORE) as f64;
    assert!(after as f64 <= 1.1 * warm as f64, "{warm} KiB grew to {after} KiB");
    assert!(guard.stats().requests as f64 >= 0.99 * sent, "{:?}", guard.stats());
    // Nulls of false positives, at most as many as there were, and the filter's own few keys.
    assert!(keys as f64 <= 1.5 * sent * rate + 6.0, "{keys} keys");
}
