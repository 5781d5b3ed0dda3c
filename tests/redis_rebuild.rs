//! Rebuilds on Redis lose nothing, whatever else goes on.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{
    BloomGuard, BoxError, IdSink, RebuildError, RebuildSource, Schedule, StoreError, Verdict,
};
use futures_util::future::join_all;
use support::eventually;
use support::model::{Table, guard, guard_over, live};
use support::proxy::{Cut, Proxy};
use support::redis_server::RedisServer;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval};

const BITS: &str = "bg:{users}:bits";
const NEXT: &str = "bg:{users}:next";
const LOCK: &str = "bg:{users}:lock";

#[tokio::test]
async fn a_rebuild_leaves_no_ttl_and_nothing_but_the_documented_keys() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build();
    live(&guard).await;
    guard.insert(&1).await.unwrap();
    assert_eq!(support::model::get(&guard, &Table::default(), 2).await, 404, "remembered");
    guard.rebuild_now().await.unwrap();
    guard.rebuild_now().await.unwrap();

    let keys = redis.keys();
    let (nulls, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| key.starts_with("bg:{users}:null:"));
    assert_eq!(others, [BITS, "bg:{users}:log", "bg:{users}:marks", "bg:{users}:meta"]);
    assert_eq!(nulls.len(), 1);
    for key in others {
        assert_eq!(redis.run::<i64>(&["TTL", key]), -1, "{key}");
    }
    for key in nulls {
        assert_eq!(key.len(), "bg:{users}:null:".len() + 32);
        assert!(redis.run::<i64>(&["TTL", key]) > 0, "{key}");
    }
}

#[tokio::test]
async fn a_ttl_on_the_building_key_does_not_become_the_live_keys() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(0));
    let guard = guard(&redis.url())
        .rebuild(Schedule::manual(), Late { table, gate: Arc::clone(&gate), late: Vec::new() })
        .build();
    let expiring = tokio::task::spawn_blocking({
        let redis = RedisServer::connection(&redis);
        move || {
            let mut redis = redis;
            // Whenever the building key appears it is given a TTL, until the live key is there.
            while redis::cmd("EXISTS").arg(BITS).query::<i64>(&mut redis).unwrap() == 0 {
                redis::cmd("EXPIRE").arg(NEXT).arg(1000).query::<i64>(&mut redis).unwrap();
            }
        }
    });
    gate.add_permits(1_000);
    live(&guard).await;
    expiring.await.unwrap();
    assert_eq!(redis.run::<i64>(&["TTL", BITS]), -1);
}

/// A table whose scan, once it has read everything, waits for a permit, and which then commits ids
/// that it no longer gives.
struct Late {
    table: Table,
    gate: Arc<Semaphore>,
    late: Vec<u64>,
}

impl RebuildSource for Late {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        RebuildSource::scan(&self.table, ids).await?;
        self.gate.acquire().await?.forget();
        for id in &self.late {
            self.table.commit(*id);
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_transaction_open_across_the_rebuild_is_kept() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(1));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: vec![4_711] };
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
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

/// Redis's clock.
fn milliseconds(redis: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = redis.run(&["TIME"]);
    seconds * 1000 + micros / 1000
}

#[tokio::test]
async fn an_id_inserted_while_no_filter_is_live_is_in_the_first_one() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(0));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: vec![4_711] };
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
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
    let guard = guard_over(&redis.url(), &table).build();
    live(&guard).await;
    for id in 2_000..2_010 {
        guard.insert(&id).await.unwrap();
    }
    let generation = guard.state().live.unwrap().generation;
    redis.run::<i64>(&["XTRIM", "bg:{users}:log", "MAXLEN", "3"]);
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Store(StoreError::JournalGap { .. })), "{error:?}");
    assert_eq!(guard.state().live.unwrap().generation, generation);
    assert_eq!(guard.check(&2_001).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn a_metadata_loss_stops_the_swap_and_the_next_rebuild_succeeds() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(1));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: Vec::new() };
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
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
    redis.run::<i64>(&["DEL", "bg:{users}:meta"]);
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
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
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
    let guard = guard_over(&redis.url(), &table).capacity(1_000, 0.01).unwrap().build();
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

#[tokio::test]
async fn one_instance_rebuilds_at_a_time() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(0));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: Vec::new() };
    let first = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
    eventually("the first has the lease", Duration::from_secs(5), || async {
        if redis.run::<i64>(&["EXISTS", LOCK]) == 1 { Ok(()) } else { Err("no".into()) }
    })
    .await;
    let other = guard_over(&redis.url(), &table).build();
    eventually("the other is refused", Duration::from_secs(5), || async {
        match other.rebuild_now().await {
            Err(error) if matches!(*error, RebuildError::Busy) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    gate.add_permits(1);
    live(&first).await;
    assert_eq!(redis.run::<i64>(&["EXISTS", LOCK]), 0, "the lease is given back");
}

#[tokio::test]
async fn an_older_rebuild_never_replaces_a_newer_filter() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(1));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: Vec::new() };
    let zombie = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
    live(&zombie).await;
    let rebuild = tokio::spawn({
        let zombie = zombie.clone();
        async move { zombie.rebuild_now().await }
    });
    eventually("the zombie scans", Duration::from_secs(5), || async {
        let step = zombie.rebuild_status().step;
        if step.as_str() == "scan" { Ok(()) } else { Err(step.to_string()) }
    })
    .await;
    // Its lease is lost to another instance, which rebuilds with rows the zombie has not seen.
    redis.run::<i64>(&["DEL", "bg:{users}:lock"]);
    table.commit(5_555);
    let other = guard_over(&redis.url(), &table).build();
    eventually("the other rebuilds", Duration::from_secs(5), || async {
        other.rebuild_now().await.map_err(|error| format!("{error:?}"))
    })
    .await;
    let newer = other.state().live.unwrap().generation;
    gate.add_permits(1);
    let error = rebuild.await.unwrap().unwrap_err();
    assert!(matches!(&*error, RebuildError::Store(StoreError::Fenced { .. })), "{error:?}");
    live(&other).await;
    assert_eq!(other.state().live.unwrap().generation, newer);
    assert_eq!(other.check(&5_555).await.unwrap(), Verdict::Present);
}

/// What is cut short.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    Connection(Cut),
    Task,
}

/// What the three tests below rest on.
#[tokio::test]
async fn a_request_that_comes_in_pieces_is_cut_too() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    proxy.arm(0, Cut::BeforeReply);
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n").await.unwrap();
    eventually("the first half is there", Duration::from_secs(10), || async {
        if proxy.requests() == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    client.write_all(b"$1\r\nv\r\n").await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), proxy.fired()).await.expect("it is cut");
    assert_eq!(redis.run::<String>(&["GET", "k"]), "v", "and was carried out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_whose_request_is_lost_at_any_round_trip_harms_nothing() {
    killed_at_every_round_trip(Kill::Connection(Cut::BeforeRequest)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_whose_reply_is_lost_at_any_round_trip_harms_nothing() {
    killed_at_every_round_trip(Kill::Connection(Cut::BeforeReply)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_whose_task_dies_at_any_round_trip_harms_nothing() {
    killed_at_every_round_trip(Kill::Task).await;
}

async fn killed_at_every_round_trip(kill: Kill) {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let table = Table::with(0..5_000);
    let through_proxy = guard_over(&proxy.url(), &table).build();
    live(&through_proxy).await;
    let witness = guard(&redis.url()).build();
    live(&witness).await;
    through_proxy.insert(&6_000).await.unwrap();

    let mut killed = 0;
    loop {
        let before = live_generation(&redis);
        let (outcome, rebuilt) = rebuild_killed_at(killed, kill, &proxy, &through_proxy).await;
        if let Some(rebuilt) = rebuilt {
            let swapped = live_generation(&redis) != before;
            assert_eq!(rebuilt, swapped, "{kill:?} {killed}: what is reported is what happened");
        }
        // The live filter is whole, for another instance as well.
        for id in (0..5_000).step_by(97).chain([6_000]) {
            assert_eq!(witness.check(&id).await.unwrap(), Verdict::Present, "{kill:?} {killed}");
        }
        live(&witness).await;
        // The next rebuild succeeds and reclaims what was left.
        eventually("the next rebuild succeeds", Duration::from_secs(20), || async {
            let rebuilt = through_proxy.rebuild_now().await;
            rebuilt.map_err(|error| format!("{kill:?} {killed}: {error:?}"))
        })
        .await;
        assert_eq!(redis.run::<i64>(&["EXISTS", NEXT, LOCK]), 0, "{kill:?} {killed}");
        assert_eq!(redis.run::<i64>(&["TTL", BITS]), -1);
        if outcome == Outcome::Unharmed {
            break;
        }
        killed += 1;
    }
    println!("{kill:?}: a rebuild has {killed} round trips, each was killed once");
    assert!(killed >= 12, "{kill:?}: only {killed} round trips were found");
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Killed,
    Unharmed,
}

/// The stored generation, past the guard.
fn live_generation(redis: &RedisServer) -> Vec<u8> {
    redis.run(&["GETRANGE", BITS, "16", "23"])
}

/// Returns also whether the rebuild reported success, unless it was not there to report any more.
async fn rebuild_killed_at(
    n: u64,
    kill: Kill,
    proxy: &Proxy,
    guard: &BloomGuard,
) -> (Outcome, Option<bool>) {
    let cut = if let Kill::Connection(cut) = kill { cut } else { Cut::BeforeReply };
    proxy.arm(n, cut);
    let rebuild = tokio::spawn({
        let guard = guard.clone();
        async move { guard.rebuild_now().await }
    });
    let abort = rebuild.abort_handle();
    let mut rebuild = rebuild;
    tokio::select! {
        // A rebuild may survive a cut: where only a poll was hit, or the swap's reply.
        rebuilt = &mut rebuild => {
            let rebuilt = Some(rebuilt.expect("no panic").is_ok());
            if proxy.disarm() {
                return (Outcome::Unharmed, rebuilt);
            }
            proxy.fired().await;
            (Outcome::Killed, rebuilt)
        }
        () = proxy.fired() => {
            if kill == Kill::Task {
                abort.abort();
            }
            let rebuilt = rebuild.await.ok().map(|rebuilt| rebuilt.is_ok());
            (Outcome::Killed, rebuilt)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_during_back_to_back_rebuilds_are_never_refused() {
    const RATE: u64 = 5_000;
    const SECONDS: u64 = 20;
    let redis = RedisServer::start();
    let table = Table::with(0..10_000);
    let capacity = |builder: bloom_guard::Builder| builder.capacity(300_000, 0.001).unwrap();
    let instances = [
        capacity(guard_over(&redis.url(), &table)).build(),
        capacity(guard_over(&redis.url(), &table)).build(),
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

#[tokio::test]
async fn a_rebuild_longer_than_its_lease_keeps_it() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let gate = Arc::new(Semaphore::new(0));
    let source = Late { table: table.clone(), gate: Arc::clone(&gate), late: Vec::new() };
    let slow = guard(&redis.url()).rebuild(Schedule::manual(), source).build();
    let rebuild = tokio::spawn({
        let slow = slow.clone();
        async move { slow.rebuild_now().await }
    });
    let holder = || redis.run::<Option<String>>(&["GET", LOCK]);
    let ours = eventually("the lease", Duration::from_secs(5), || async {
        holder().ok_or_else(|| "nobody's".to_owned())
    })
    .await;
    let other = guard_over(&redis.url(), &table).build();
    // Half as long again as the lease lasts, and past three renewals.
    let over = milliseconds(&redis) + 15_000;
    while milliseconds(&redis) < over {
        assert_eq!(holder().as_ref(), Some(&ours), "the lease lapsed, or went to another");
        let busy = other.rebuild_now().await;
        assert!(busy.is_err(), "two rebuilds at once");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gate.add_permits(100);
    rebuild.await.unwrap().unwrap();
    eventually("the lease is given back", Duration::from_secs(5), || async {
        holder().map_or(Ok(()), Err)
    })
    .await;
}
