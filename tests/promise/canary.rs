//! A few refusals are let through, and a record found by one of them is an alarm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{
    BloomGuard, BoxError, Builder, Doubt, Mode, PathPattern, Proof, Schedule, Verdict,
};
use http::StatusCode;
use support::eventually;
use support::model::{Table, get, guard_over, live, says};
use support::redis_server::RedisServer;

fn in_process(table: &Table) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .capacity(20_000, 1e-6)
        .rebuild(Schedule::manual(), table.clone())
}

async fn noticed(guard: &BloomGuard) {
    eventually("the false negative is noticed", Duration::from_secs(10), || async {
        let found = guard.stats().false_negatives;
        if found > 0 { Ok(()) } else { Err(format!("{:?}", guard.stats())) }
    })
    .await;
}

/// A source that gives fewer ids than there are rows: a view that is filtered, a wrong schema.
#[derive(Clone)]
struct Misses(Table, Arc<AtomicU64>);

impl RebuildSource for Misses {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        for id in self.0.snapshot().into_iter().filter(|id| *id < 1_000) {
            ids.push(&id).await?;
        }
        Ok(())
    }
}

/// A rebuild gives no better filter than the one that was disproved; records that were found are added.
async fn one_rebuild_follows(builder: Builder, source: &Misses) {
    let Misses(table, scans) = source;
    let guard = builder.rebuild(Schedule::manual(), source.clone()).build().unwrap();
    guard.set_mode(Mode::Shadow);
    guard.ready().await;
    let first = guard.state().live.unwrap().generation;
    for id in 1_000..=1_002_u64 {
        let found = guard.stats().false_negatives;
        table.commit(id);
        assert_eq!(get(&guard, table, id).await, StatusCode::OK);
        eventually("it is noticed", Duration::from_secs(10), || async {
            let stats = guard.stats();
            if stats.false_negatives > found { Ok(()) } else { Err(format!("{stats:?}")) }
        })
        .await;
        // The first ends the first filter, the second stays in use until another two are missing from it.
        let is_out_of_use = id == 1_002;
        eventually("what becomes of the filter", Duration::from_secs(20), || async {
            match guard.state().live {
                Ok(live) if live.generation > first && !is_out_of_use => Ok(()),
                Err(Doubt::DisprovedTwice) if is_out_of_use => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        // The record is refused no more.
        let unknown = Verdict::Unknown(Doubt::DisprovedTwice);
        says(&guard, id, if is_out_of_use { unknown } else { Verdict::Present }).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(scans.load(Ordering::SeqCst), 2, "the first, and one that did not help");
    guard.rebuild_now().await.unwrap();
    eventually("a rebuild by hand ends it", Duration::from_secs(10), || async {
        if guard.state().is_ready() { Ok(()) } else { Err(guard.state().to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_source_that_misses_rows_is_scanned_once_more_and_not_for_ever() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let in_redis = support::model::guard(&redis.url());
    for builder in [in_redis, in_process(&table).audits_per_second(0)] {
        let source = Misses(Table::with(0..1_000), Arc::default());
        one_rebuild_follows(builder, &source).await;
    }
}

#[tokio::test]
async fn without_a_source_a_disproved_filter_stays_out_of_use() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    drop(builder);
    let guard = support::model::guard(&redis.url()).build().unwrap();
    guard.set_mode(Mode::Shadow);
    live(&guard).await;
    table.commit(1_000);
    assert_eq!(get(&guard, &table, 1_000).await, StatusCode::OK);
    noticed(&guard).await;
    says(&guard, 5_000, Verdict::Unknown(Doubt::Disproved)).await;
    assert_eq!(guard.state().live.unwrap_err(), Doubt::Disproved);
}

/// The row is created while the request is between check and handler: that is no fault of the filter.
#[tokio::test]
async fn a_record_created_meanwhile_is_no_alarm() {
    use http::{Request, Response};
    use tower::{Layer, ServiceExt};

    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..100)).build().unwrap();
    guard.set_mode(Mode::Shadow);
    live(&guard).await;
    let inserts = || {
        let stats: String = redis.run(&["INFO", "commandstats"]);
        let calls =
            stats.split_once("cmdstat_zadd:calls=").and_then(|(_, rest)| rest.split_once(','));
        calls.map_or(0, |(calls, _)| calls.parse::<u64>().unwrap())
    };
    let service = guard.layer(tower::service_fn({
        let guard = guard.clone();
        move |_: Request<String>| {
            let guard = guard.clone();
            async move {
                guard.insert(&1_000).await.unwrap();
                Ok::<_, std::convert::Infallible>(Response::new(String::new()))
            }
        }
    }));
    let before = inserts();
    let request = Request::get("/users/1000").body(String::new()).unwrap();
    service.oneshot(request).await.unwrap();
    // The finding has been looked into once its own insert is there.
    eventually("it is looked into", Duration::from_secs(10), || async {
        let done = inserts() - before;
        if done == 2 { Ok(()) } else { Err(done.to_string()) }
    })
    .await;
    assert_eq!(guard.stats().false_negatives, 0);
    assert!(guard.state().is_ready());
}

/// A null that hides a record (an undeletion that nobody told of) is removed; the filter is not at fault.
#[tokio::test]
async fn a_null_that_hides_a_record_is_removed() {
    let table = Table::with(0..100);
    let guard = in_process(&table).build().unwrap();
    guard.ready().await;
    table.delete(5);
    assert_eq!(get(&guard, &table, 5).await, StatusCode::NOT_FOUND);
    table.commit(5);
    guard.set_mode(Mode::Shadow);
    assert_eq!(get(&guard, &table, 5).await, StatusCode::OK);
    noticed(&guard).await;
    guard.set_mode(Mode::Enforce);
    eventually("the null is gone", Duration::from_secs(10), || async {
        match get(&guard, &table, 5).await {
            StatusCode::OK => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    assert!(guard.state().is_ready());
}

#[tokio::test]
async fn a_finding_names_the_record_that_has_been_inserted_and_the_generation_that_lacked_it() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let generation = guard.state().live.unwrap().generation;
    guard.set_mode(Mode::Shadow);
    table.commit(1_000);
    for _ in 0..3 {
        assert_eq!(get(&guard, &table, 1_000).await, StatusCode::OK);
    }
    let finding = guard.next_finding().await;
    assert_eq!(finding.id.as_bytes(), b"1000");
    assert_eq!(finding.generation, Some(generation));
    assert_eq!(finding.proof, Proof::Filter);
    says(&guard, 1_000, Verdict::Present).await;
    assert_eq!(guard.stats().false_negatives, 1, "once");
}
