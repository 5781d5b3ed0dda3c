//! A scan that cannot be right does not go live; one that is larger than planned does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bloom_guard::{BoxError, IdSink, RebuildError, RebuildSource, Schedule, Verdict};

use support::model::{Table, guard, guard_over, live};
use support::redis_server::RedisServer;

#[tokio::test]
async fn a_shrunken_empty_or_failing_scan_leaves_the_live_filter() {
    struct Odd(Table, Arc<AtomicU64>);
    impl RebuildSource for Odd {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            let fail_after = self.1.load(Ordering::SeqCst);
            for id in self.0.snapshot() {
                if ids.count() == fail_after {
                    return Err("the database went away".into());
                }
                ids.push(&id).await?;
            }
            Ok(())
        }
    }
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let fail_after = Arc::new(AtomicU64::new(u64::MAX));
    let source = Odd(table.clone(), Arc::clone(&fail_after));
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), source).build().unwrap();
    live(&guard).await;
    let generation = guard.state().live.unwrap().generation;

    fail_after.store(500, Ordering::SeqCst);
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Source(_)), "{error:?}");
    fail_after.store(u64::MAX, Ordering::SeqCst);

    for id in 0..101 {
        table.delete(id);
    }
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(
        matches!(&*error, RebuildError::Shrunk { previous: 1_000, found: 899, .. }),
        "{error:?}"
    );
    for id in 101..1_000 {
        table.delete(id);
    }
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Empty), "{error:?}");
    let last = guard.rebuild_status().last.unwrap().unwrap_err().to_string();
    assert_eq!(last, "the source gave no ids");

    assert_eq!(guard.state().live.unwrap().generation, generation);
    for id in 0..1_000 {
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present);
    }

    let report = guard.rebuild_accepting_loss().await.unwrap();
    assert_eq!(report.ids, 0);
    assert!(matches!(guard.check(&5).await.unwrap(), Verdict::Absent(_)));
}

#[tokio::test]
async fn a_source_that_outgrows_its_capacity_gets_a_larger_filter() {
    let redis = RedisServer::start();
    let table = Table::with(0..10_000);
    let guard = guard_over(&redis.url(), &table).capacity(1_000, 0.01).build().unwrap();
    live(&guard).await;
    let filter = guard.state().live.unwrap();
    assert_eq!((filter.items, filter.capacity), (10_000, 15_000));
    let mut passed = 0;
    for id in 100_000..120_000 {
        passed += u32::from(guard.check(&id).await.unwrap() == Verdict::Present);
    }
    assert!(passed < 200, "{passed} of 20,000 absent ids pass: more than 1 %");
    assert_eq!(guard.rebuild_now().await.unwrap().scans, 1, "sized from the last generation");
}
