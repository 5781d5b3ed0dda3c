//! What clients that hang up, slow handlers and a deploy with mixed settings do to the promises.

mod support;

use std::time::Duration;

use bloom_guard::{Doubt, Verdict};
use futures_util::FutureExt;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

const SECOND: Duration = Duration::from_secs(1);

/// HTTP/2 clients that reset their streams as soon as they are open, amid an honest one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_hang_up_at_once_leave_the_answers_to_others_alone() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build();
    live(&guard).await;
    let attacker = tokio::spawn({
        let guard = guard.clone();
        async move {
            loop {
                for id in 0..64_u64 {
                    let _given_up = guard.check(&id).boxed().now_or_never();
                }
                // 64,000 a second.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let begun = tokio::time::Instant::now();
    let honest = futures_util::future::join_all((0..16).map(|_| {
        let guard = guard.clone();
        async move {
            let (mut unknown, mut all) = (0, 0);
            while begun.elapsed() < 2 * SECOND {
                all += 1;
                if let Verdict::Unknown(doubt) = guard.check(&7).await.unwrap() {
                    assert_eq!(doubt, Doubt::Timeout);
                    unknown += 1;
                }
                // Clients come when they come.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (unknown, all)
        }
    }));
    let honest = honest.await;
    let unknown: u64 = honest.iter().map(|(unknown, _)| unknown).sum();
    let all: u64 = honest.iter().map(|(_, all)| all).sum();
    attacker.abort();
    println!("hostile: {unknown} of {all} answers unknown");
    assert!(unknown * 100 <= all, "{unknown} of {all} honest checks were not answered");
}
