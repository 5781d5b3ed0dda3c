//! Inserts that nobody can say again: no filter is trusted until their transactions are over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{Doubt, Verdict};
use tokio::time::Instant;

use super::{BACK, BITS, META, OPEN, never_refused};
use support::model::{Table, brief, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use support::{eventually, throughout};

/// More inserts within the longest transaction than a process remembers: it cannot vouch, and no
/// filter is trusted until the transactions that it forgot are over.
#[tokio::test]
async fn a_process_that_forgot_some_of_its_inserts_says_so() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(4))
        .build()
        .unwrap();
    let creator = guard(&redis.url())
        .longest_transaction(Duration::from_secs(4))
        .journal_entries(1_000)
        .build()
        .unwrap();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert(&OPEN).await.unwrap();
    creator.insert_many(10_000..11_500_u64).await.unwrap();
    let inserted = Instant::now();
    redis.run::<()>(&["FLUSHALL"]);
    // It commits at the last moment that its transaction may.
    let last_moment = inserted + Duration::from_millis(3_900);
    throughout(last_moment - Instant::now(), || async {
        let verdict = rebuilder.check(&OPEN).await.unwrap();
        assert!(!matches!(verdict, Verdict::Absent(_)), "a filter without the insert is trusted");
    })
    .await;
    never_refused([&rebuilder, &creator], &table).await;
    eventually("a filter is trusted at last", Duration::from_secs(30), || async {
        assert_eq!(get_looked_up(&rebuilder, &table, OPEN).await, 200, "acknowledged, and refused");
        match rebuilder.check(&u64::MAX).await.unwrap() {
            Verdict::Absent(_) => Ok(()),
            other => Err(format!("{other:?} {:?}", rebuilder.state())),
        }
    })
    .await;
}

/// A newcomer has drawn another secret key before the creator came back: its digests are of no use.
#[tokio::test]
async fn inserts_under_a_lost_secret_key_are_not_vouched_for() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    let creator = guard(&route.url()).build().unwrap();
    live(&first).await;
    live(&creator).await;
    drop(first);
    creator.insert(&OPEN).await.unwrap();
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    let newcomer = guard_over(&redis.url(), &table).build().unwrap();
    live(&newcomer).await;
    route.turn(Traffic::To(redis.port()));
    eventually("the newcomer's filter is not trusted any more", BACK, || async {
        match newcomer.check(&OPEN).await.unwrap() {
            Verdict::Unknown(Doubt::NotLive | Doubt::NoFilter) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    never_refused([&newcomer, &creator], &table).await;
}

/// The same of a process that has lived for longer than a transaction takes: the insert's is open all the same.
#[tokio::test]
async fn inserts_under_a_lost_secret_key_are_not_vouched_for_by_an_old_process() {
    const LONGEST: Duration = Duration::from_secs(4);
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    let creator = guard(&route.url()).longest_transaction(LONGEST).build().unwrap();
    let begun = Instant::now();
    live(&first).await;
    live(&creator).await;
    drop(first);
    eventually("it is old", LONGEST * 3, || async {
        if begun.elapsed() > LONGEST + Duration::from_secs(1) {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    creator.insert(&OPEN).await.unwrap();
    let inserted = Instant::now();
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    let newcomer = guard_over(&redis.url(), &table).build().unwrap();
    live(&newcomer).await;
    route.turn(Traffic::To(redis.port()));
    eventually("the newcomer's filter is not trusted any more", BACK, || async {
        match newcomer.check(&OPEN).await.unwrap() {
            Verdict::Unknown(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let mut committed = false;
    throughout(LONGEST * 2, || {
        if !committed && inserted.elapsed() > LONGEST - Duration::from_millis(500) {
            table.commit(OPEN);
            committed = true;
        }
        let (newcomer, creator, table) = (&newcomer, &creator, &table);
        async move {
            for guard in [newcomer, creator] {
                let status = get_looked_up(guard, table, OPEN).await;
                assert!(!committed || status == 200, "acknowledged, and refused");
            }
        }
    })
    .await;
}

/// A process that inserted something long ago has nothing to give up when the metadata are lost.
#[tokio::test]
async fn an_idle_process_gives_nothing_up() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&guard).await;
    guard.insert(&OPEN).await.unwrap();
    table.commit(OPEN);
    let inserted = Instant::now();
    eventually("its transaction is over", BACK, || async {
        if inserted.elapsed() > Duration::from_secs(3) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    redis.run::<i64>(&["DEL", META]);
    eventually("the new incarnation is joined and trusted", BACK, || async {
        let joined: Option<Vec<u8>> = redis.run(&["HGET", META, "inc"]);
        match (joined, guard.check(&u64::MAX).await.unwrap()) {
            (Some(_), Verdict::Absent(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(redis.run::<Option<String>>(&["HGET", META, "unvouched"]), None);
}

/// Counts what the replay of own inserts logs.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicU64>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN && metadata.target().ends_with("::replay")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// A newer version of the crate has rebuilt, and the metadata was lost.
#[tokio::test]
async fn a_replay_that_fails_again_and_again_is_logged_once() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let lines = Lines::default();
    let _installed = tracing::subscriber::set_default(lines.clone());
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.insert(&OPEN).await.unwrap();
    let mut head = b"BLMGUARD\0\x02\x01\x55".to_vec();
    head.resize(512, 0);
    let mut connection = redis.connection();
    redis::cmd("SET").arg(BITS).arg(&head).exec(&mut connection).unwrap();
    redis::cmd("DEL").arg(META).exec(&mut connection).unwrap();
    eventually("the replay fails", Duration::from_secs(10), || async {
        let _ = guard.check(&7_u64).await;
        if lines.0.load(Ordering::SeqCst) > 0 {
            Ok(())
        } else {
            Err("nothing is logged".to_owned())
        }
    })
    .await;
    throughout(Duration::from_secs(3), || async {
        assert_eq!(lines.0.load(Ordering::SeqCst), 1, "an outage is logged once");
    })
    .await;
}

/// Redis's clock was two days ahead when somebody said so.
#[tokio::test]
async fn after_a_clock_set_back_rebuilds_wait_no_longer_than_a_transaction_takes() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&guard).await;
    let now: (u64, u64) = redis.run(&["TIME"]);
    let ahead = ((now.0 + 2 * 86_400) * 1_000).to_string();
    redis.run::<i64>(&["HSET", META, "unvouched", &ahead]);
    eventually("a rebuild goes live", Duration::from_secs(10), || async {
        guard.rebuild_now().await.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
}
