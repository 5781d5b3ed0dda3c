//! What clients that hang up, slow handlers and a deploy with mixed settings do to the promises.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bloom_guard::{BloomGuard, Doubt, Verdict};
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{Table, get, guard_over, live};
use support::redis_server::RedisServer;
use tokio::sync::Notify;
use tower::{Layer, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

/// A writer and a reader of one filter, whose handlers are slow to a different degree.
#[tokio::test]
async fn a_slow_404_hides_no_record_that_another_process_inserts_meanwhile() {
    const ID: u64 = 7;
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let reader = guard_over(&redis.url(), &table).build().unwrap();
    live(&reader).await;
    let writer = support::model::guard(&redis.url())
        .longest_transaction(SECOND)
        .handler_time(Duration::from_millis(100))
        .build()
        .unwrap();
    live(&writer).await;
    table.delete(ID);

    let (read, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = tower::service_fn({
        let (table, read, answer) = (table.clone(), Arc::clone(&read), Arc::clone(&answer));
        move |_: Request<String>| {
            let (table, read, answer) = (table.clone(), Arc::clone(&read), Arc::clone(&answer));
            async move {
                let found = table.look_up(ID);
                read.notify_one();
                answer.notified().await;
                let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
                Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
            }
        }
    });
    let pending = tokio::spawn(
        reader.layer(slow).oneshot(Request::get("/users/7").body(String::new()).unwrap()),
    );
    read.notified().await;
    writer.insert(&ID).await.unwrap();
    table.commit(ID);
    // As long as the writer's mark could last at the least.
    let since = tokio::time::Instant::now();
    eventually("the writer's time is over", 10 * SECOND, || async {
        let passed = since.elapsed();
        if passed > Duration::from_millis(2_500) { Ok(()) } else { Err(format!("{passed:?}")) }
    })
    .await;
    answer.notify_one();
    assert_eq!(pending.await.unwrap().unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(reader.check(&ID).await.unwrap(), Verdict::Present);
    assert_eq!(get(&reader, &table, ID).await, StatusCode::OK);
}

/// How long a rebuild may take.
const LONGEST_REBUILD: Duration = Duration::from_secs(105 * 60);

/// A journal whose entries were made so long ago. A guard keeps them for the longest rebuild and its
/// longest transaction.
async fn aged_journal(redis: &RedisServer, guard: &BloomGuard, age: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let old = (now - age).as_millis() as u64;
    eventually("the guard has enrolled", 10 * SECOND, || async {
        let kid: Option<String> = redis.run(&["HGET", "bg:{users}:meta", "kid"]);
        kid.map(drop).ok_or_else(|| format!("{:?}", guard.state()))
    })
    .await;
    let kid: String = redis.run(&["HGET", "bg:{users}:meta", "kid"]);
    let () = redis.run(&["DEL", "bg:{users}:log"]);
    for seq in 1..=300_u64 {
        let (id, digest) = (format!("{}-0", old + seq), "0123456789abcdef");
        let (seq, before) = (seq.to_string(), (old + seq - 1).to_string());
        let () = redis.run(&[
            "XADD",
            "bg:{users}:log",
            &id,
            "k",
            "a",
            "i",
            &kid,
            "s",
            &seq,
            "p",
            &before,
            "d",
            digest,
        ]);
    }
    let last = (old + 300).to_string();
    let () = redis.run(&["HSET", "bg:{users}:meta", "seq", "300", "last", &last]);
}

#[tokio::test]
async fn slow_handlers_do_not_make_rebuilds_ask_for_more_journal_than_is_kept() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table)
        .longest_transaction(SECOND)
        .handler_time(3_600 * SECOND)
        .build()
        .unwrap();
    live(&guard).await;
    aged_journal(&redis, &guard, LONGEST_REBUILD + 600 * SECOND).await;
    guard.insert(&5_000).await.unwrap();
    table.commit(5_000);
    guard.rebuild_now().await.unwrap();
}

/// After a deploy that shortened the longest transaction, and while both sorts of process are there.
#[tokio::test]
async fn rebuilds_need_no_more_journal_than_processes_with_other_settings_keep() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let patient =
        support::model::guard(&redis.url()).longest_transaction(3_600 * SECOND).build().unwrap();
    let guard = guard_over(&redis.url(), &table).longest_transaction(SECOND).build().unwrap();
    live(&guard).await;
    aged_journal(&redis, &guard, LONGEST_REBUILD + 600 * SECOND).await;
    patient.insert(&5_000).await.unwrap();
    guard.insert(&5_001).await.unwrap();
    guard.rebuild_now().await.unwrap();
}

/// Another process's transactions may be longer.
#[tokio::test]
async fn a_process_with_short_transactions_leaves_the_journal_that_others_need() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let patient =
        guard_over(&redis.url(), &table).longest_transaction(3_600 * SECOND).build().unwrap();
    live(&patient).await;
    let hasty = support::model::guard(&redis.url()).longest_transaction(SECOND).build().unwrap();
    live(&hasty).await;
    aged_journal(&redis, &patient, LONGEST_REBUILD + 600 * SECOND).await;
    let entries = || redis.run::<u64>(&["XLEN", "bg:{users}:log"]);
    let before = entries();
    hasty.insert(&5_000).await.unwrap();
    assert_eq!(entries(), before + 1, "what a rebuild of the other's needs is dropped");
}

/// HTTP/2 clients that reset their streams as soon as they are open, amid an honest one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_hang_up_at_once_leave_the_answers_to_others_alone() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
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
