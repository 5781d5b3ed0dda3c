//! An insert that Redis acknowledged and then lost is not refused when its transaction commits, for as
//! long as the process that made it lives.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, RebuildStep, Verdict};
use support::far::Far;
use support::model::{Table, get, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use support::{eventually, throughout};
use tokio::time::Instant;

const BITS: &str = "bg:{users}:bits";
const LOG: &str = "bg:{users}:log";
const META: &str = "bg:{users}:meta";
/// The id whose transaction is open while Redis loses it.
const OPEN: u64 = 4_711;
/// How soon after a fault has ended the guard refuses again.
const BACK: Duration = Duration::from_secs(5);

/// Waits until a filter of a later generation is trusted.
async fn rebuilt<R: Send + Sync + 'static>(guard: &BloomGuard<R>, old: i64) {
    eventually("a new filter is trusted", Duration::from_secs(20), || async {
        let verdict = guard.check(&u64::MAX).await.unwrap();
        let state = guard.state();
        let newer = state.live.is_ok_and(|live| live.generation.get() > old);
        match verdict {
            Verdict::Absent(_) if newer => Ok(()),
            other => Err(format!("{other:?}, {:?}, {:?}", guard.state(), guard.rebuild_status())),
        }
    })
    .await;
}

fn generation<R: Send + Sync + 'static>(guard: &BloomGuard<R>) -> i64 {
    guard.state().live.expect("a live filter").generation.get()
}

/// Neither of the guards refuses the id once it is committed.
async fn never_refused(guards: [&BloomGuard; 2], table: &Table) {
    table.commit(OPEN);
    throughout(Duration::from_secs(2), || async {
        for guard in guards {
            assert_eq!(get(guard, table, OPEN).await, 200, "acknowledged, and refused");
        }
    })
    .await;
}

/// Somebody was rebuilding when the dump was written, or when the replica was promoted.
#[tokio::test]
async fn a_lease_that_came_with_a_dump_keeps_nobody_from_rebuilding() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build();
    live(&guard).await;
    let old = generation(&guard);
    redis.run::<()>(&["SET", "bg:{users}:lock", "somebody", "PX", "3600000"]);
    redis.run::<()>(&["SAVE"]);
    redis.restart();
    rebuilt(&guard, old).await;
}

#[tokio::test]
async fn an_insert_lost_by_a_restart_from_an_old_dump_is_not_refused() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build();
    let creator = guard(&redis.url()).build();
    live(&rebuilder).await;
    live(&creator).await;
    redis.run::<()>(&["SAVE"]);
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    redis.restart();
    let ended = Instant::now();
    rebuilt(&rebuilder, old).await;
    rebuilt(&creator, old).await;
    assert!(ended.elapsed() < BACK, "back after {:?}", ended.elapsed());
    never_refused([&rebuilder, &creator], &table).await;
}

#[tokio::test]
async fn an_insert_lost_by_an_emptied_redis_is_not_refused() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build();
    let creator = guard(&redis.url()).build();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    redis.run::<()>(&["FLUSHALL"]);
    let ended = Instant::now();
    rebuilt(&rebuilder, old).await;
    rebuilt(&creator, old).await;
    assert!(ended.elapsed() < BACK, "back after {:?}", ended.elapsed());
    never_refused([&rebuilder, &creator], &table).await;
}

/// The journal and its numbering go, the filter and the process that answers stay (eviction).
#[tokio::test]
async fn an_insert_lost_with_the_journal_is_in_the_next_filter() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build();
    let creator = guard(&redis.url()).build();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert(&OPEN).await.unwrap();
    redis.run::<i64>(&["DEL", "bg:{users}:log", META]);
    eventually("a rebuild", BACK, || async {
        rebuilder.rebuild_now().await.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
    never_refused([&rebuilder, &creator], &table).await;
}

#[tokio::test]
async fn an_insert_lost_by_a_failover_is_not_refused() {
    let (a, b) = (RedisServer::start(), RedisServer::start());
    let route = Route::to(a.port()).await;
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&route.url(), &table).build();
    let creator = guard(&route.url()).build();
    live(&rebuilder).await;
    live(&creator).await;
    b.run::<()>(&["REPLICAOF", "127.0.0.1", &a.port().to_string()]);
    eventually("b follows", Duration::from_secs(20), || async {
        let info: String = b.run(&["INFO", "replication"]);
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
    // The first replica gives the primary a new history: wait until that is over.
    rebuilder.rebuild_now().await.ok();
    live(&rebuilder).await;
    live(&creator).await;
    eventually("b has the filter", Duration::from_secs(20), || async {
        let digest = |redis: &RedisServer| redis.run::<Option<Vec<u8>>>(&["DUMP", BITS]);
        if digest(&a) == digest(&b) { Ok(()) } else { Err("no".to_owned()) }
    })
    .await;

    b.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    drop(a);
    route.turn(Traffic::To(b.port()));
    let ended = Instant::now();
    rebuilt(&rebuilder, old).await;
    rebuilt(&creator, old).await;
    assert!(ended.elapsed() < BACK, "back after {:?}", ended.elapsed());
    never_refused([&rebuilder, &creator], &table).await;
}

/// The creator is a second late to find Redis again; the rebuild is through by then.
#[tokio::test]
async fn a_rebuild_waits_for_those_who_come_back_a_little_later() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build();
    let creator = guard(&route.url()).build();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    let run_known = eventually("the rebuilder enrols again", BACK, || async {
        let there: i64 = redis.run(&["EXISTS", META]);
        if there == 1 { Ok(Instant::now()) } else { Err("no".to_owned()) }
    })
    .await;
    eventually("a second passes", BACK, || async {
        let passed = run_known.elapsed();
        if passed > Duration::from_secs(1) { Ok(()) } else { Err(format!("{passed:?}")) }
    })
    .await;
    route.turn(Traffic::To(redis.port()));
    // It commits as soon as the scan has passed, long before the filter is trusted.
    table.commit(OPEN);
    throughout(Duration::from_secs(5), || async {
        assert_eq!(get(&rebuilder, &table, OPEN).await, 200, "acknowledged, and refused");
        assert_eq!(get(&creator, &table, OPEN).await, 200, "acknowledged, and refused");
    })
    .await;
    rebuilt(&rebuilder, old).await;
}

/// A process that is away for long does not refuse its own ids by a filter that was built meanwhile.
#[tokio::test]
async fn a_process_trusts_no_filter_before_its_own_inserts_are_in() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build();
    let creator = guard(&route.url()).build();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    rebuilt(&rebuilder, old).await;
    table.commit(OPEN);
    route.turn(Traffic::To(redis.port()));
    eventually("the creator trusts the new filter", BACK, || async {
        assert_eq!(get(&creator, &table, OPEN).await, 200, "acknowledged, and refused");
        match creator.check(&u64::MAX).await.unwrap() {
            Verdict::Absent(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    never_refused([&rebuilder, &creator], &table).await;
}

/// More inserts within the longest transaction than a process remembers: it cannot vouch, and no
/// filter is trusted until the transactions that it forgot are over.
#[tokio::test]
async fn a_process_that_forgot_some_of_its_inserts_says_so() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(4))
        .unwrap()
        .build();
    let creator = guard(&redis.url())
        .longest_transaction(Duration::from_secs(4))
        .unwrap()
        .journal_entries(1_000)
        .unwrap()
        .build();
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
        assert_eq!(get(&rebuilder, &table, OPEN).await, 200, "acknowledged, and refused");
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
    let first = guard_over(&redis.url(), &table).build();
    let creator = guard(&route.url()).build();
    live(&first).await;
    live(&creator).await;
    drop(first);
    creator.insert(&OPEN).await.unwrap();
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    let newcomer = guard_over(&redis.url(), &table).build();
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

/// Counts what the replay of own inserts logs.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicU64>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN && metadata.target().ends_with("::vouch")
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
    let guard = guard_over(&redis.url(), &table).build();
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
    let guard = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(1))
        .unwrap()
        .handler_time(Duration::from_millis(100))
        .unwrap()
        .build();
    live(&guard).await;
    let now: (u64, u64) = redis.run(&["TIME"]);
    let ahead = ((now.0 + 2 * 86_400) * 1_000).to_string();
    redis.run::<i64>(&["HSET", META, "unvouched", &ahead]);
    eventually("a rebuild goes live", Duration::from_secs(10), || async {
        guard.rebuild_now().await.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
}

/// A process that makes inserts from far away, one that rebuilds, and their table; the first has an
/// insert whose transaction is open, after so many others.
async fn far_away(redis: &RedisServer, others: u64) -> (Far, BloomGuard, BloomGuard, Table) {
    let far = Far::to(redis.port(), Duration::from_millis(20)).await;
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build();
    let deadline = Duration::from_millis(500);
    let creator = guard(&far.url()).check_deadline(deadline).unwrap().build();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert_many(10_000..10_000 + others).await.unwrap();
    creator.insert(&OPEN).await.unwrap();
    (far, creator, rebuilder, table)
}

#[tokio::test]
async fn who_falls_silent_while_he_says_his_inserts_again_is_waited_for() {
    let redis = RedisServer::start();
    let (far, _creator, rebuilder, table) = far_away(&redis, 5_000).await;
    redis.run::<()>(&["FLUSHALL"]);
    eventually("the replay is well under way", Duration::from_secs(20), || async {
        let said: i64 = redis.try_run(&["XLEN", LOG]).map_err(|error| error.to_string())?;
        if said > 75 { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
    assert_eq!(rebuilder.rebuild_status().step, RebuildStep::Swap, "the scan is over");
    table.commit(OPEN);
    far.be_silent(true);
    let (silent, mut said) = (Instant::now(), false);
    throughout(Duration::from_secs(6), || {
        if !said && silent.elapsed() > Duration::from_millis(1500) {
            far.be_silent(false);
            said = true;
        }
        let (rebuilder, table) = (&rebuilder, &table);
        async move {
            assert_eq!(get(rebuilder, table, OPEN).await, 200, "acknowledged, and refused");
        }
    })
    .await;
}

#[tokio::test]
async fn time_in_which_redis_stood_still_is_no_time_to_say_inserts_again() {
    let redis = RedisServer::start();
    let (_far, _creator, rebuilder, table) = far_away(&redis, 2_000).await;
    redis.run::<i64>(&["DEL", LOG, META]);
    let again = rebuilder.clone();
    let rebuilding = tokio::spawn(async move { again.rebuild_now().await });
    eventually("the swap waits", Duration::from_secs(5), || async {
        let waits: Option<String> =
            redis.try_run(&["HGET", META, "waits"]).map_err(|error| error.to_string())?;
        waits.ok_or_else(|| "not yet".to_owned())
    })
    .await;
    redis.pause();
    table.commit(OPEN);
    let (paused, mut over) = (Instant::now(), false);
    throughout(Duration::from_secs(8), || {
        if !over && paused.elapsed() > Duration::from_millis(2200) {
            redis.resume();
            over = true;
        }
        let (rebuilder, table) = (&rebuilder, &table);
        async move {
            assert_eq!(get(rebuilder, table, OPEN).await, 200, "acknowledged, and refused");
        }
    })
    .await;
    rebuilding.await.unwrap().ok();
}
