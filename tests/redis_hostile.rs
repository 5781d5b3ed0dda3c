//! Operators, failovers and other processes at their worst: nothing that was acknowledged is refused.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{
    BloomGuard, BoxError, Doubt, IdSink, PathPattern, RebuildSource, Schedule, SecretKey, Verdict,
};
use support::model::{Table, get, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};
use tokio::net::{TcpListener, TcpStream};

const BITS: &str = "bg:{users}:bits";
const META: &str = "bg:{users}:meta";

/// Waits until so much time has passed by Redis's clock.
async fn passes(redis: &RedisServer, time: Duration) {
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

/// Failover A -> B -> A: A comes back with its old `run_id` and without what only it had acknowledged.
#[tokio::test]
async fn a_primary_that_was_a_replica_meanwhile_is_suspect() {
    let a = RedisServer::start();
    let b = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&a.url(), &table).build();
    live(&guard).await;
    let (pa, pb) = (a.port().to_string(), b.port().to_string());
    b.run::<()>(&["REPLICAOF", "127.0.0.1", &pa]);
    synced(&b).await;
    eventually("b has the filter", Duration::from_secs(10), || async {
        let keys: i64 = b.run(&["EXISTS", BITS]);
        if keys == 1 { Ok(()) } else { Err("no".to_owned()) }
    })
    .await;
    // The partition: b is promoted, a goes on acknowledging.
    b.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get(&guard, &table, 4_711).await, 200);
    // It heals: a follows b. Then b fails, and a is promoted again.
    a.run::<()>(&["REPLICAOF", "127.0.0.1", &pb]);
    synced(&a).await;
    a.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get(&guard, &table, 4_711).await, 200, "{:?}", guard.state());
    })
    .await;
}

async fn synced(redis: &RedisServer) {
    eventually("synced", Duration::from_secs(20), || async {
        let info: String = redis.run(&["INFO", "replication"]);
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
}

/// The metadata is lost; a new process enrols first and draws another key. What is acknowledged under
/// it must not be refused by a process that still asks under the old key.
#[tokio::test]
async fn an_add_under_another_key_is_not_acknowledged_while_the_old_filter_answers() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    // No source: nobody rebuilds (or: the rebuild takes long).
    let builder = guard_over(&redis.url(), &table).build();
    live(&builder).await;
    drop(builder);
    let reader = guard(&redis.url()).build();
    live(&reader).await;
    redis.run::<i64>(&["DEL", META]);
    let newcomer = guard(&redis.url()).build();
    eventually("the newcomer inserts", Duration::from_secs(5), || async {
        newcomer.insert(&4_711).await.map_err(|error| error.to_string())
    })
    .await;
    table.commit(4_711);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get(&reader, &table, 4_711).await, 200, "acknowledged, and refused");
    })
    .await;
}

/// The same loss; the journal survives, but its digests are of the old key. A rebuild under the new
/// key cannot use them, so it must not take them for coverage.
#[tokio::test]
async fn a_journal_of_another_key_is_no_coverage() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build();
    live(&first).await;
    first.insert(&4_711).await.unwrap(); // its transaction stays open
    redis.run::<i64>(&["DEL", META]);
    let newcomer = guard_over(&redis.url(), &table).build();
    eventually("the newcomer's rebuild", Duration::from_secs(10), || async {
        match newcomer.rebuild_now().await {
            Ok(_) => Ok(()),
            Err(error) if format!("{error:?}").contains("JournalGap") => Ok(()),
            Err(error) => Err(format!("{error:?}")),
        }
    })
    .await;
    table.commit(4_711);
    assert_eq!(get(&newcomer, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// Somebody makes the live key longer.
#[tokio::test]
async fn an_add_to_a_lengthened_filter_is_not_lost() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build();
    live(&builder).await;
    drop(builder);
    let guard = guard(&redis.url()).build();
    live(&guard).await;
    guard.insert(&5_000).await.unwrap();
    redis.run::<i64>(&["APPEND", BITS, "x"]);
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get(&guard, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// A newer crate's filter is live (rolling upgrade): this crate cannot set its bits, so it must not
/// say that it has.
#[tokio::test]
async fn an_add_is_not_acknowledged_while_a_newer_format_is_live() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build();
    live(&guard).await;
    redis.run::<i64>(&["SETRANGE", BITS, "9", "\u{2}"]);
    assert!(guard.insert(&4_711).await.is_err(), "acknowledged without the bits");
}

/// With one secret key for several filters, a filter under another one's name passes for it.
#[tokio::test]
async fn another_filters_bits_are_not_trusted() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let key = SecretKey::new([9; 16]);
    let users = guard_over(&redis.url(), &table).secret_key(key.clone()).build();
    live(&users).await;
    let posts = BloomGuard::builder("posts", PathPattern::<u64>::new("/posts/{id}").unwrap())
        .unwrap()
        .redis(&redis.url())
        .unwrap()
        .check_deadline(Duration::from_secs(1))
        .unwrap()
        .secret_key(key)
        .rebuild(Schedule::manual(), table.clone())
        .build();
    live(&posts).await;
    redis.run::<i64>(&["COPY", BITS, "bg:{posts}:bits", "REPLACE"]);
    let verdict = posts.check(&7).await.unwrap();
    assert!(!matches!(verdict, Verdict::Absent(_)), "{verdict:?}");
}

/// Marks and metadata are lost together (allkeys eviction).
#[tokio::test]
async fn lost_marks_and_metadata_stop_nulls() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build();
    live(&guard).await;
    guard.insert(&4_711).await.unwrap();
    redis.run::<i64>(&["DEL", "bg:{users}:marks", META]);
    assert_eq!(get(&guard, &table, 4_711).await, 404, "its transaction is open");
    table.commit(4_711);
    assert_eq!(get(&guard, &table, 4_711).await, 200);
}

/// A fleet in which `longest_transaction` is being raised.
#[tokio::test]
async fn a_mark_lasts_as_long_as_its_creator_says() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let creator = guard_over(&redis.url(), &table).build(); // 15 minutes
    live(&creator).await;
    let other = guard(&redis.url())
        .longest_transaction(Duration::from_secs(1))
        .unwrap()
        .handler_time(Duration::from_millis(100))
        .unwrap()
        .build();
    live(&other).await;
    creator.insert(&4_711).await.unwrap();
    passes(&redis, Duration::from_millis(2_500)).await;
    assert_eq!(get(&other, &table, 4_711).await, 404, "its transaction is open");
    table.commit(4_711);
    assert_eq!(get(&creator, &table, 4_711).await, 200);
}

/// Redis's clock was two days ahead once.
#[tokio::test]
async fn a_clock_set_back_does_not_start_a_rebuild_storm() {
    struct Counting(Table, Arc<AtomicU64>);
    impl RebuildSource for Counting {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            RebuildSource::scan(&self.0, ids).await
        }
    }
    let redis = RedisServer::start();
    let now: (u64, u64) = redis.run(&["TIME"]);
    let future = (now.0 + 2 * 86_400) * 1_000_000;
    redis.run::<i64>(&["HSET", META, "epoch", &future.to_string()]);
    let scans = Arc::new(AtomicU64::new(0));
    let source = Counting(Table::with(0..1_000), Arc::clone(&scans));
    let hourly = Schedule::every(Duration::from_secs(3600)).unwrap();
    let guard = guard(&redis.url()).rebuild(hourly, source).build();
    live(&guard).await;
    passes(&redis, Duration::from_secs(4)).await;
    let scans = scans.load(Ordering::SeqCst);
    assert!(scans <= 2, "{scans} scans of the database in 4 s, once an hour was asked for");
}

#[tokio::test]
async fn the_smallest_filters_work() {
    let redis = RedisServer::start();
    for (ids, capacity, rate) in [(1_u64, 1, 0.5), (1, 1, 1e-9), (40, 1, 0.01)] {
        redis.run::<()>(&["FLUSHALL"]);
        let table = Table::with(0..ids);
        let guard = guard_over(&redis.url(), &table)
            .capacity(capacity, rate)
            .unwrap()
            .longest_transaction(Duration::from_secs(1))
            .unwrap()
            .build();
        eventually("live", Duration::from_secs(10), || async {
            match guard.check(&0).await.unwrap() {
                Verdict::Present => Ok(()),
                other => Err(format!("{other:?} {:?}", guard.rebuild_status())),
            }
        })
        .await;
        guard.insert_many(100..400_u64).await.unwrap();
        for id in (0..ids).chain(100..400) {
            assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{id}");
        }
        guard.rebuild_now().await.unwrap();
    }
}

/// Marks after a bulk insert.
#[tokio::test]
async fn marks_and_journal_shrink_when_inserts_stop() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(1))
        .unwrap()
        .handler_time(Duration::from_millis(100))
        .unwrap()
        .build();
    live(&guard).await;
    guard.insert_many(10_000..30_000_u64).await.unwrap();
    passes(&redis, Duration::from_millis(2_500)).await;
    guard.rebuild_now().await.unwrap();
    guard.rebuild_now().await.unwrap();
    let marks: i64 = redis.run(&["ZCARD", "bg:{users}:marks"]);
    assert!(marks < 1_000, "{marks}");
}

/// A guard whose first runtime ends.
#[test]
fn a_guard_survives_the_runtime_it_was_first_used_in() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let first = tokio::runtime::Runtime::new().unwrap();
    let guard = first.block_on(async {
        let guard = guard_over(&redis.url(), &table).build();
        live(&guard).await;
        guard
    });
    drop(first);
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        eventually("an insert in the second runtime", Duration::from_secs(5), || async {
            guard.insert(&1).await.map_err(|error| error.to_string())
        })
        .await;
    });
}

/// Two processes differ in `longest_transaction` (it is being raised); the shorter one rebuilds.
#[tokio::test]
async fn a_rebuild_reaches_back_as_far_as_any_creator_needs() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table)
        .longest_transaction(Duration::from_secs(1))
        .unwrap()
        .build();
    live(&rebuilder).await;
    let creator = guard(&redis.url()).build(); // 15 minutes
    live(&creator).await;
    creator.insert(&4_711).await.unwrap();
    passes(&redis, Duration::from_millis(1_100)).await;
    rebuilder.rebuild_now().await.unwrap();
    table.commit(4_711);
    assert_eq!(get(&creator, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// A source without adds: the journal of generations is never trimmed.
#[tokio::test]
async fn the_journal_is_bounded_without_adds() {
    let redis = RedisServer::start();
    let table = Table::with(0..10);
    let guard = guard_over(&redis.url(), &table)
        .capacity(10, 0.01)
        .unwrap()
        .journal_entries(1_000)
        .unwrap()
        .build();
    guard.ready().await;
    for _ in 0..1_500 {
        let _ = guard.rebuild_now().await;
    }
    let entries: i64 = redis.run(&["XLEN", "bg:{users}:log"]);
    assert!(entries <= 1_200, "{entries}");
}

/// A name that resolves to another server from now on: open connections stay where they are.
async fn moving_name(target: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let port = target.load(Ordering::SeqCst);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn adds_and_checks_of_one_process_never_go_to_different_redises() {
    let a = RedisServer::start();
    let b = RedisServer::start();
    let target = Arc::new(AtomicU16::new(a.port()));
    let port = moving_name(Arc::clone(&target)).await;
    let table = Table::with(0..1_000);
    let guard = guard_over(&format!("redis://127.0.0.1:{port}/"), &table).build();
    live(&guard).await;

    // The name moves to b. The connections for checks and bulk break, the one for adds does not.
    let adds = loop {
        guard.insert(&1).await.unwrap();
        let clients: String = a.run(&["CLIENT", "LIST"]);
        let evalsha: Vec<String> = clients
            .lines()
            .filter(|line| line.contains("cmd=evalsha"))
            .map(|line| line.split(' ').next().unwrap()[3..].to_owned())
            .collect();
        if let [id] = evalsha.as_slice() {
            break id.clone();
        }
        tokio::task::yield_now().await;
    };
    target.store(b.port(), Ordering::SeqCst);
    let clients: String = a.run(&["CLIENT", "LIST"]);
    for line in clients.lines().filter(|line| !line.contains("cmd=client")) {
        let id = &line.split(' ').next().unwrap()[3..];
        if id != adds {
            a.run::<i64>(&["CLIENT", "KILL", "ID", id]);
        }
    }
    eventually("b has a filter", Duration::from_secs(15), || async {
        let there: i64 = b.run(&["EXISTS", "bg:{users}:bits"]);
        if there == 1 { Ok(()) } else { Err(format!("{:?}", guard.state())) }
    })
    .await;
    live(&guard).await;
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get(&guard, &table, 4_711).await, 200, "acknowledged, and refused");
    })
    .await;
}

/// Somebody makes the live key longer; a process that starts then sees that it is no filter, one that
/// knew it before would go on asking it.
#[tokio::test]
async fn an_add_by_one_who_sees_a_lengthened_filter_stops_those_who_do_not() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build();
    live(&builder).await;
    drop(builder);
    let witness = guard(&redis.url()).build();
    live(&witness).await;
    redis.run::<i64>(&["APPEND", BITS, "x"]);
    let newcomer = guard(&redis.url()).build();
    eventually("the newcomer inserts", Duration::from_secs(5), || async {
        newcomer.insert(&4_711).await.map_err(|error| error.to_string())
    })
    .await;
    table.commit(4_711);
    assert_eq!(get(&witness, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// A value that is replaced and put back: who saw it in between must not go on as if it were no filter.
#[tokio::test]
async fn an_add_after_a_filter_was_shortened_and_put_back_is_not_lost() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build();
    live(&builder).await;
    drop(builder);
    let witness = guard(&redis.url()).build();
    live(&witness).await;
    let set = |bytes: &[u8]| {
        redis::cmd("SET").arg(BITS).arg(bytes).exec(&mut redis.connection()).unwrap();
    };
    let whole: Vec<u8> = redis.run(&["GET", BITS]);
    set(&whole[..whole.len() - 64]);
    let newcomer = guard(&redis.url()).build();
    eventually("the newcomer inserts", Duration::from_secs(5), || async {
        newcomer.insert(&1).await.map_err(|error| error.to_string())
    })
    .await;
    set(&whole);
    newcomer.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get(&witness, &table, 4_711).await, 200, "acknowledged, and refused");
}

/// Somebody restores yesterday's filter over today's, on the very process that verified both.
#[tokio::test]
async fn an_older_filter_than_the_one_known_is_not_trusted() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build();
    live(&builder).await;
    let old: Vec<u8> = redis.run(&["DUMP", BITS]);
    builder.insert(&4_711).await.unwrap();
    table.commit(4_711);
    builder.rebuild_now().await.unwrap();
    drop(builder);
    let witness = guard(&redis.url()).build();
    live(&witness).await;
    let mut restore = redis::cmd("RESTORE");
    restore.arg(BITS).arg(0).arg(old).arg("REPLACE").exec(&mut redis.connection()).unwrap();
    throughout(Duration::from_millis(1_500), || async {
        assert_eq!(get(&witness, &table, 4_711).await, 200, "committed, and refused");
    })
    .await;
    assert_eq!(witness.check(&5_000).await.unwrap(), Verdict::Unknown(Doubt::Suspect));
    let newcomer = guard(&redis.url()).build();
    eventually("a newcomer does not trust it either", Duration::from_secs(5), || async {
        match newcomer.check(&5_000).await.unwrap() {
            Verdict::Unknown(Doubt::Suspect) => Ok(()),
            Verdict::Absent(_) => panic!("it refuses"),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let healer = guard_over(&redis.url(), &table).build();
    healer.ready().await;
    healer.rebuild_now().await.unwrap();
    live(&witness).await;
}
