//! What is inserted before, during and after a rebuild is in its filter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{RebuildError, StoreError, Verdict};
use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{LOG, META, held, milliseconds};
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

#[tokio::test]
async fn a_transaction_open_across_the_rebuild_is_kept() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, gate) = held(&redis, &table, 1, &[4_711]);
    live(&guard).await;
    table.delete(4_711);
    // The add comes first, then the rebuild begins; its scan does not see the row, which commits
    // after the scan.
    guard.insert(&4_711).await.unwrap();
    let inserted = milliseconds(&redis);
    eventually("the insert lies before the rebuild", Duration::from_secs(5), || async {
        let now = milliseconds(&redis);
        if now > inserted + 20 { Ok(()) } else { Err(format!("{now} ms")) }
    })
    .await;
    gate.add_permits(1);
    let report = guard.rebuild_now().await.unwrap();
    assert!(report.replayed >= 1, "{report:?}");
    assert_eq!(report.ids, 1_000, "the scan did not see it");
    assert_eq!(guard.check(&4_711).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn an_id_inserted_while_no_filter_is_live_is_in_the_first_one() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, gate) = held(&redis, &table, 0, &[4_711]);
    eventually("the scan has begun", Duration::from_secs(5), || async {
        let _ = guard.check(&1).await;
        let status = guard.rebuild_status();
        if status.ids_scanned > 700 { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    guard.insert(&4_711).await.unwrap();
    gate.add_permits(1);
    live(&guard).await;
    assert_eq!(guard.check(&4_711).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn a_trimmed_journal_stops_the_swap() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    for id in 2_000..2_010 {
        guard.insert(&id).await.unwrap();
    }
    let generation = guard.state().live.unwrap().generation;
    redis.run::<i64>(&["XTRIM", LOG, "MAXLEN", "3"]);
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Store(StoreError::JournalGap { .. })), "{error:?}");
    assert_eq!(guard.state().live.unwrap().generation, generation);
    assert_eq!(guard.check(&2_001).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn a_metadata_loss_stops_the_swap_and_the_next_rebuild_succeeds() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, gate) = held(&redis, &table, 1, &[]);
    live(&guard).await;
    let rebuild = tokio::spawn({
        let guard = guard.clone();
        async move { guard.rebuild_now().await }
    });
    eventually("the scan has begun", Duration::from_secs(5), || async {
        let status = guard.rebuild_status();
        if status.step.as_str() == "scan" { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    redis.run::<i64>(&["DEL", META]);
    gate.add_permits(1);
    let error = rebuild.await.unwrap().unwrap_err();
    assert!(matches!(&*error, RebuildError::Store(StoreError::JournalGap { .. })), "{error:?}");
    gate.add_permits(100);
    eventually("a rebuild succeeds", Duration::from_secs(10), || async {
        guard.rebuild_now().await.map_err(|error| format!("{error:?}"))
    })
    .await;
    for id in 0..1_000 {
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_during_back_to_back_rebuilds_are_never_refused() {
    const RATE: u64 = 5_000;
    const SECONDS: u64 = 20;
    let redis = RedisServer::start();
    let table = Table::with(0..10_000);
    let capacity = |builder: bloom_guard::Builder| builder.capacity(300_000, 0.001);
    let instances = [
        capacity(guard_over(&redis.url(), &table)).build().unwrap(),
        capacity(guard_over(&redis.url(), &table)).build().unwrap(),
    ];
    for instance in &instances {
        live(instance).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let rebuilds = tokio::spawn({
        let (done, instances, table) = (Arc::clone(&done), instances.clone(), table.clone());
        async move {
            let mut count = 0_u64;
            while !done.load(Ordering::SeqCst) {
                let report = instances[count as usize % 2].rebuild_now().await.expect("a rebuild");
                count += 1;
                assert!(report.ids >= 10_000);
                // What was inserted while the filter was uploaded is in nobody's scan.
                let recent = table.newest(500);
                let reader = &instances[count as usize % 2];
                let checks = recent.iter().map(|id| reader.check(id));
                for (id, found) in recent.iter().zip(join_all(checks).await) {
                    let found = found.unwrap();
                    assert!(!matches!(found, Verdict::Absent(_)), "{id} after swap {count}");
                }
            }
            count
        }
    });
    let refused = Arc::new(AtomicU64::new(0));
    let permits = Arc::new(Semaphore::new(256));
    let begun = Instant::now();
    let mut ticks = interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = 0;
    while sent < RATE * SECONDS {
        ticks.tick().await;
        for _ in 0..RATE / 100 {
            let id = 1_000_000 + sent;
            sent += 1;
            let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
            let [a, b] = &instances;
            let (writer, reader) = if id % 2 == 0 { (a, b) } else { (b, a) };
            let (writer, reader) = (writer.clone(), reader.clone());
            let (table, refused) = (table.clone(), Arc::clone(&refused));
            tokio::spawn(async move {
                writer.insert(&id).await.expect("an acknowledged insert");
                table.commit(id);
                let found = reader.check(&id).await.unwrap();
                if matches!(found, Verdict::Absent(_)) {
                    refused.fetch_add(1, Ordering::SeqCst);
                }
                drop(permit);
            });
        }
    }
    let _all = permits.acquire_many(256).await.unwrap();
    let took = begun.elapsed();
    done.store(true, Ordering::SeqCst);
    let rebuilds = rebuilds.await.unwrap();
    println!("{sent} inserts in {took:?} during {rebuilds} rebuilds");
    assert_eq!(refused.load(Ordering::SeqCst), 0, "refused at once through the other instance");
    assert!(rebuilds >= 5, "only {rebuilds} rebuilds went on meanwhile");

    let mut unknown = 0;
    for id in table.snapshot() {
        match instances[(id % 2) as usize].check(&id).await.unwrap() {
            Verdict::Present => {}
            Verdict::Absent(_) => panic!("{id} is refused after the last swap"),
            _ => unknown += 1,
        }
    }
    assert_eq!(unknown, 0);
}
