//! Operators, failovers and other processes at their worst: nothing that was acknowledged is refused.

mod apart;
mod clocks;
mod other_keys;
mod rewound;
mod times;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::BloomGuard;
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{Table, guard, guard_over, live};
use support::redis_server::RedisServer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::{Layer, ServiceExt};

const BITS: &str = "bg:{users}:bits";
const META: &str = "bg:{users}:fleet";

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

/// Sends a request whose handler has read the table when this returns, and answers when it is told to.
async fn has_read(
    guard: &BloomGuard,
    table: &Table,
    id: u64,
) -> (oneshot::Sender<()>, JoinHandle<StatusCode>) {
    let (has_read, read) = oneshot::channel();
    let (answer, may_answer) = oneshot::channel();
    let steps = Arc::new(Mutex::new(Some((has_read, may_answer))));
    let rows = table.clone();
    let service = guard.layer(tower::service_fn(move |_: Request<String>| {
        let (has_read, may_answer) = steps.lock().unwrap().take().unwrap();
        let found = rows.look_up(id);
        async move {
            has_read.send(()).unwrap();
            may_answer.await.unwrap();
            let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
        }
    }));
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    let sent = service.oneshot(request);
    let answered = tokio::spawn(async move { sent.await.unwrap().status() });
    read.await.unwrap();
    (answer, answered)
}
