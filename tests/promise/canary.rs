//! A few refusals are let through, and a record found by one of them is an alarm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloom_guard::{
    BloomGuard, BoxError, Builder, Doubt, IdSink, Mode, PathPattern, RebuildSource, Schedule,
    Verdict,
};
use http::StatusCode;
use support::eventually;
use support::model::{Table, get, guard_over, live};
use support::redis_server::RedisServer;

const IDS: u64 = 10_000;

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

/// One id in a hundred was written behind the guard's back, and an attack makes up half of the requests: one
/// refusal in a hundred is wrong. With fifty samples a second that takes two seconds to notice.
#[tokio::test(flavor = "multi_thread")]
async fn one_id_in_a_hundred_hidden_from_the_filter_is_noticed_within_a_minute() {
    let redis = RedisServer::start();
    let table = Table::with((0..IDS).filter(|id| id % 100 != 7));
    let build = || guard_over(&redis.url(), &table).capacity(20_000, 1e-6).audits_per_second(50);
    let (guard, other) = (build().build().unwrap(), build().build().unwrap());
    live(&guard).await;
    live(&other).await;
    (0..IDS).filter(|id| id % 100 == 7).for_each(|id| table.commit(id));

    let began = Instant::now();
    let mut requests = 0_u64;
    let mut refused = 0;
    while guard.stats().false_negatives == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", guard.stats());
        for _ in 0..500 {
            let existing = requests.wrapping_mul(7_919) % IDS;
            refused += u64::from(get(&guard, &table, existing).await == StatusCode::NOT_FOUND);
            get(&guard, &table, u64::MAX - requests).await;
            requests += 1;
        }
    }
    println!(
        "canary: noticed after {:.1} s, {} requests, {refused} refusals of existing ids, {} audits",
        began.elapsed().as_secs_f64(),
        2 * requests,
        guard.stats().audits,
    );
    for guard in [&guard, &other] {
        eventually("no process trusts the filter", Duration::from_secs(10), || async {
            // By now it may have been rebuilt, and then it is trusted with reason.
            match guard.check(&1_007).await.unwrap() {
                Verdict::Absent(proof) => Err(format!("{proof:?}")),
                _ => Ok(()),
            }
        })
        .await;
        live(guard).await;
    }
    for id in (0..IDS).filter(|id| id % 100 == 7) {
        assert_eq!(get(&other, &table, id).await, StatusCode::OK, "{id}");
    }
}

#[tokio::test]
async fn a_disproved_filter_answers_nobody_until_it_is_rebuilt() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let without_source = support::model::guard(&redis.url()).build().unwrap();
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    guard.set_mode(Mode::Shadow);
    live(&guard).await;
    live(&without_source).await;
    let generation = guard.state().live.unwrap().generation;
    table.commit(1_000);
    assert_eq!(get(&guard, &table, 1_000).await, StatusCode::OK, "shadow refuses nobody");
    noticed(&guard).await;

    eventually("another filter is live", Duration::from_secs(10), || async {
        match guard.state().live {
            Ok(live) if live.generation > generation => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    live(&without_source).await;
    assert_eq!(without_source.check(&1_000).await.unwrap(), Verdict::Present);
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
    for id in 1_000..1_010_u64 {
        let found = guard.stats().false_negatives;
        table.commit(id);
        assert_eq!(get(&guard, table, id).await, StatusCode::OK);
        eventually("it is noticed", Duration::from_secs(10), || async {
            let stats = guard.stats();
            if stats.false_negatives > found { Ok(()) } else { Err(format!("{stats:?}")) }
        })
        .await;
        eventually("the second filter is live", Duration::from_secs(20), || async {
            match guard.state().live {
                Ok(live) if live.generation > first => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        eventually("the record is in it", Duration::from_secs(10), || async {
            match guard.check(&id).await.unwrap() {
                Verdict::Present => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    assert_eq!(scans.load(Ordering::SeqCst), 2, "the first, and one that did not help");
}

#[tokio::test]
async fn a_source_that_misses_rows_is_scanned_once_more_and_not_for_ever() {
    let redis = RedisServer::start();
    let source = Misses(Table::with(0..1_000), Arc::default());
    one_rebuild_follows(support::model::guard(&redis.url()), &source).await;
}

#[tokio::test]
async fn in_process_a_source_that_misses_rows_is_scanned_once_more_and_not_for_ever() {
    let source = Misses(Table::with(0..1_000), Arc::default());
    let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
    let builder = BloomGuard::builder("users", pattern).in_process();
    one_rebuild_follows(builder.audits_per_second(0), &source).await;
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
    eventually("it is out of use", Duration::from_secs(10), || async {
        match guard.check(&5_000).await.unwrap() {
            Verdict::Unknown(Doubt::Disproved) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(guard.state().live.unwrap_err(), Doubt::Disproved);
}

#[tokio::test]
async fn in_process_a_disproved_filter_is_rebuilt_too() {
    let table = Table::with(0..100);
    let guard = in_process(&table).build().unwrap();
    guard.set_mode(Mode::Shadow);
    guard.ready().await;
    let generation = guard.state().live.unwrap().generation;
    table.commit(1_000);
    assert_eq!(get(&guard, &table, 1_000).await, StatusCode::OK);
    noticed(&guard).await;
    eventually("another filter is live", Duration::from_secs(10), || async {
        match guard.state().live {
            Ok(live) if live.generation > generation => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    guard.set_mode(Mode::Enforce);
    assert_eq!(get(&guard, &table, 1_000).await, StatusCode::OK);
}

/// Between a finding and its consequence the filter may have been rebuilt.
#[tokio::test]
async fn the_disproof_of_a_filter_is_none_of_its_successor() {
    const DISTRUST: &str = include_str!("../../src/store/redis/distrust.lua");
    const BITS: &str = "bg:{users}:bits";
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let before: Vec<u8> = redis.run(&["GET", BITS]);
    let (generation, state) = (&before[16..24], &before[11..12]);
    let distrust = |generation: &[u8]| {
        redis::Script::new(DISTRUST)
            .key(BITS)
            .key("bg:{users}:meta")
            .arg(generation)
            .arg(16)
            .arg(b"?")
            .arg(11)
            .arg("not looked at")
            .invoke::<u8>(&mut redis.connection())
            .unwrap()
    };
    let mut other = generation.to_vec();
    other[7] ^= 1;
    assert_eq!(distrust(&other), 0);
    assert_eq!(redis.run::<Vec<u8>>(&["GET", BITS]), before);
    assert_eq!(distrust(generation), 1);
    assert_ne!(redis.run::<Vec<u8>>(&["GET", BITS])[11..12], *state);
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
    let journal = || redis.run::<u64>(&["XLEN", "bg:{users}:log"]);
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
    let before = journal();
    let request = Request::get("/users/1000").body(String::new()).unwrap();
    service.oneshot(request).await.unwrap();
    // The finding has been looked into once its own insert is there.
    eventually("it is looked into", Duration::from_secs(10), || async {
        let done = journal() - before;
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
