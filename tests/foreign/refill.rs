//! A refill: what exists is never refused, whatever happens at each of its steps, and by wrong numbers nothing is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{
    BloomGuard, BoxError, Doubt, ForeignFilter, IdSink, RebuildError, RebuildSource, RebuildStep,
    Schedule, StoreError, from_iter,
};
use redis::Commands;
use support::eventually;
use support::model::foreign_guard;
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;

use crate::copies::{self, statement};
use crate::guarded::{SOON, STRANGERS, refused, refuses_strangers, trust, untrusted};
use crate::redisbloom;
use crate::writers::Writer;

const IDS: u64 = 2_000;
const LONGEST_TRANSACTION: Duration = Duration::from_secs(1);

/// A guard that refills a filter from these ids.
fn refilling(server: &RedisServer, filter: ForeignFilter, ids: std::ops::Range<u64>) -> BloomGuard {
    over(server, filter, from_iter(move || ids.clone()))
}

fn over(server: &RedisServer, filter: ForeignFilter, source: impl RebuildSource) -> BloomGuard {
    waiting(server, filter, LONGEST_TRANSACTION, source)
}

fn waiting(
    server: &RedisServer,
    filter: ForeignFilter,
    longest_transaction: Duration,
    source: impl RebuildSource,
) -> BloomGuard {
    let guard =
        foreign_guard(&server.url()).foreign(filter).longest_transaction(longest_transaction);
    guard.rebuild(Schedule::manual(), source).build().unwrap()
}

/// Why the last refill failed.
async fn failure(guard: &BloomGuard, part: &str) -> Arc<RebuildError> {
    let last = || guard.rebuild_status().last.and_then(Result::err);
    eventually(part, SOON, || async {
        match last() {
            Some(error) if format!("{error:?}").contains(part) => Ok(()),
            other => Err(format!("{other:?}: {:?}", guard.state())),
        }
    })
    .await;
    last().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_layout_is_refilled_after_its_key_was_lost_and_nothing_else_of_it_is_touched() {
    for writer in Writer::all(IDS) {
        let server = RedisServer::start();
        writer.write(&server, 0..IDS);
        let guard = refilling(&server, writer.filter(), 0..IDS);
        trust(&guard).await;
        // A part of it is there, and the key is to end some day.
        server.run::<()>(&["DEL", writer.key]);
        untrusted(&guard).await;
        writer.write(&server, 0..IDS / 2);
        server.run::<()>(&["EXPIRE", writer.key, "5000"]);
        refuses_strangers(&guard, writer.name).await;
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
        assert!((0..IDS).all(|id| writer.reads(&server, id)), "{}", writer.name);
        assert!(server.run::<i64>(&["TTL", writer.key]) > 4_000, "{}", writer.name);
        let report = guard.rebuild_status().last.unwrap().unwrap();
        assert_eq!((report.ids, report.generation), (IDS, guard.state().live.unwrap().generation));
        // What is trusted needs none.
        let error = guard.rebuild_now().await.unwrap_err();
        assert!(format!("{error:?}").contains("nothing to refill"), "{error:?}");
    }
}

/// A source whose scans wait for a permit, and that counts them.
#[derive(Clone)]
struct Held {
    gate: Arc<Semaphore>,
    scans: Arc<AtomicU64>,
}

impl RebuildSource for Held {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        for id in 0..IDS {
            ids.push(&id).await?;
        }
        self.gate.acquire().await?.forget();
        Ok(())
    }
}

/// What becomes of the key while a refill goes on.
type Loss = fn(&RedisServer, &Writer);

const LOSSES: [(&str, Loss); 5] = [
    ("it is renamed away, and back", |server, writer| {
        server.run::<()>(&["RENAME", writer.key, "away"]);
        writer.write(server, STRANGERS.take(10));
        std::thread::sleep(Duration::from_millis(2_500));
        server.run::<()>(&["RENAME", "away", writer.key]);
    }),
    ("it is deleted", |server, writer| server.run::<()>(&["DEL", writer.key])),
    ("it is put back from a copy", |server, writer| {
        server.run::<()>(&["COPY", "copy", writer.key, "REPLACE"]);
    }),
    ("it is made anew", |server, writer| {
        server.run::<()>(&["DEL", writer.key]);
        writer.write(server, 0..10);
    }),
    ("the refill's word is lost", |server, writer| server.run::<()>(&["DEL", &statement(writer)])),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_second_loss_in_a_refill_has_it_state_nothing_and_the_next_one_follows() {
    let server = RedisServer::start();
    for (what, loss) in LOSSES {
        for in_scan in [false, true] {
            println!("{what}, in the scan: {in_scan}");
            server.run::<()>(&["FLUSHALL"]);
            let writer = Writer::go_zero(IDS);
            writer.write(&server, 0..IDS);
            let held = Held { gate: Arc::new(Semaphore::new(0)), scans: Arc::default() };
            let guard = over(&server, writer.filter(), held.clone());
            trust(&guard).await;
            server.run::<()>(&["COPY", writer.key, "copy"]);
            server.run::<()>(&["DEL", writer.key]);
            untrusted(&guard).await;
            writer.write(&server, 0..IDS / 2);
            eventually("a refill is under way", SOON, || async {
                let step = guard.rebuild_status().step;
                let is_there = step == RebuildStep::Scan
                    && (!in_scan || held.scans.load(Ordering::SeqCst) > 0);
                if is_there { Ok(()) } else { Err(step.to_string()) }
            })
            .await;
            // Another program has inserted it, and what befalls the key loses it.
            writer.write(&server, STRANGERS.take(5));
            loss(&server, &writer);
            let word: Option<String> = server.connection().hget(statement(&writer), "on").unwrap();
            held.gate.add_permits(1);
            failure(&guard, "Lost").await;
            assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0], "{what} {word:?}");
            held.gate.add_permits(100);
            refuses_strangers(&guard, what).await;
            assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{what}");
        }
    }
}

/// Another config is there for a while, and what the writer inserts meanwhile is where that says.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_comes_back_ends_a_refill() {
    let server = RedisServer::start();
    let writer = Writer::redisson(IDS);
    writer.write(&server, 0..IDS);
    let held = Held { gate: Arc::new(Semaphore::new(0)), scans: Arc::default() };
    let guard = over(&server, writer.filter(), held.clone());
    trust(&guard).await;
    server.run::<()>(&["DEL", writer.key]);
    writer.write(&server, 0..IDS / 2);
    eventually("a refill is under way", SOON, || async {
        if held.scans.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    server.run::<()>(&["HINCRBY", "{users}:config", "size", "-64"]);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    server.run::<()>(&["HINCRBY", "{users}:config", "size", "64"]);
    held.gate.add_permits(1);
    failure(&guard, "Lost").await;
    held.gate.add_permits(100);
    refuses_strangers(&guard, "the next one").await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_refill_has_set_that_was_cut_off_speaks_for_its_numbers() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let guard = refilling(&server, writer.filter(), 0..IDS);
    trust(&guard).await;
    let half: Vec<u8> = server.run(&["GETRANGE", writer.key, "0", &(writer.bits / 16).to_string()]);
    server.run::<()>(&["DEL", writer.key]);
    let mut set = redis::cmd("SET");
    set.arg(writer.key).arg(half).exec(&mut server.connection()).unwrap();
    untrusted(&guard).await;
    refuses_strangers(&guard, "it is refilled").await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_nobody_has_shown_are_not_refilled_by_though_the_guard_finds_its_own_inserts()
{
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    // By too few bits, so that the seal has room.
    let wrong = ForeignFilter::go_zero(writer.key, writer.bits / 2);
    let guard = refilling(&server, wrong, 0..IDS);
    eventually("an insert", SOON, || async {
        guard.insert_many(0..IDS).await.map_err(|error| error.to_string())
    })
    .await;
    writer.write(&server, 0..10);
    let whole: Vec<u8> = server.run(&["DUMP", writer.key]);
    let error = failure(&guard, "never shown to be the writer's").await;
    assert!(matches!(*error, RebuildError::Store(StoreError::Foreign { .. })), "{error}");
    assert_eq!(server.run::<Vec<u8>>(&["DUMP", writer.key]), whole);
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_the_writer_has_changed_and_another_table_are_not_refilled_by() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    let others = Writer::go_zero(IDS / 2);
    writer.write(&server, 0..IDS);
    let guard = refilling(&server, writer.filter(), 0..IDS);
    trust(&guard).await;
    server.run::<()>(&["DEL", writer.key]);
    // The same key by other numbers; and with a guard's own inserts among them.
    others.write(&server, 0..IDS / 2);
    guard.insert_many(0..20_u64).await.unwrap();
    // The seal lies behind them.
    let bits = || -> Vec<u8> {
        let last = (writer.bits / 8 - 1).to_string();
        let mut bits: Vec<u8> = server.run(&["GETRANGE", writer.key, "0", &last]);
        bits.resize((writer.bits / 8) as usize, 0);
        bits
    };
    let written = bits();
    failure(&guard, "compare layout, numbers").await;
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
    assert!(bits() == written, "bits were set by other numbers");
    drop(guard);
    // Another tenant's source.
    server.run::<()>(&["FLUSHALL"]);
    writer.write(&server, 0..IDS);
    let guard = refilling(&server, writer.filter(), 1 << 40..(1 << 40) + IDS);
    trust(&guard).await;
    server.run::<()>(&["HDEL", &statement(&writer), "witnesses"]);
    failure(&guard, "compare layout, numbers").await;
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_open_at_the_loss_is_waited_for() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let committed = Arc::new(AtomicU64::new(IDS));
    let table = Arc::clone(&committed);
    let source = from_iter(move || 0..table.load(Ordering::SeqCst));
    // Longer than it takes to notice the loss, and to begin.
    let longest = Duration::from_secs(4);
    let guard = waiting(&server, writer.filter(), longest, source);
    trust(&guard).await;
    server.run::<()>(&["COPY", writer.key, "copy"]);
    copies::turned_over(&server, &writer, 2).await;
    // They are inserted, lost, and visible when they have to be.
    writer.write(&server, IDS..IDS + 20);
    let visible = tokio::time::Instant::now() + longest;
    server.run::<()>(&["COPY", "copy", writer.key, "REPLACE"]);
    untrusted(&guard).await;
    tokio::time::sleep_until(visible - Duration::from_millis(50)).await;
    committed.store(IDS + 20, Ordering::SeqCst);
    refuses_strangers(&guard, "it is refilled").await;
    assert_eq!(refused(&guard, 0..IDS + 20).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_guards_with_sources_refill_one_filter_once() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let scans = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let guards = scans.each_ref().map(|scans| {
        let scans = Arc::clone(scans);
        let source = from_iter(move || {
            scans.fetch_add(1, Ordering::SeqCst);
            0..IDS
        });
        over(&server, writer.filter(), source)
    });
    trust(&guards[0]).await;
    for guard in &guards {
        refuses_strangers(guard, "all of them refuse").await;
    }
    server.run::<()>(&["DEL", writer.key]);
    for guard in &guards {
        untrusted(guard).await;
    }
    for guard in &guards {
        refuses_strangers(guard, "all of them refuse again").await;
        assert_eq!(refused(guard, 0..IDS).await, [0; 0]);
    }
    let all: u64 = scans.iter().map(|scans| scans.load(Ordering::SeqCst)).sum();
    assert_eq!(all, 1, "scans");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_evicted_is_not_refilled() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let guard = refilling(&server, writer.filter(), 0..IDS);
    trust(&guard).await;
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1gb"]);
    server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    server.run::<()>(&["DEL", writer.key]);
    let error = failure(&guard, "evicted").await;
    let is_named =
        matches!(&*error, RebuildError::Store(StoreError::Refused { doubt: Doubt::Eviction, .. }));
    assert!(is_named, "{error}");
    server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    refuses_strangers(&guard, "it is refilled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_on_several_instances_are_refilled_where_they_were_lost() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let urls = [servers[0].url(), servers[1].url()];
    let filter = || ForeignFilter::php_bkdr_sharded("php", 1_000_000, 4, &[&urls[1]]);
    let guard = refilling(&servers[0], filter(), 0..IDS);
    eventually("an insert", SOON, || async {
        guard.insert_many(0..IDS).await.map_err(|error| error.to_string())
    })
    .await;
    crate::guarded::trust_by(&guard, 0..IDS).await;
    for lost in [vec![1], vec![0], vec![0, 1]] {
        for server in &lost {
            servers[*server].run::<()>(&["FLUSHALL"]);
        }
        untrusted(&guard).await;
        refuses_strangers(&guard, "it is refilled").await;
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{lost:?}");
        assert!(guard.state().live.is_ok(), "{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modules_filter_is_never_made_and_takes_no_ids_of_another_form() {
    let server = redisbloom::server();
    redisbloom::write(&server, "users", 0..IDS);
    let filter = || ForeignFilter::redisbloom("users");
    let guard = refilling(&server, filter(), 0..IDS);
    trust(&guard).await;
    server.run::<()>(&["DEL", "users"]);
    failure(&guard, "not found").await;
    assert_eq!(server.run::<i64>(&["EXISTS", "users"]), 0);
    // The writer makes it anew, and writes in another form.
    let mut add = redis::cmd("BF.MADD");
    add.arg("users").arg((0..500).map(|id| format!("\"{id}\"")).collect::<Vec<_>>());
    add.exec(&mut server.connection()).unwrap();
    failure(&guard, "compare layout, numbers").await;
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
    server.run::<()>(&["DEL", "users"]);
    redisbloom::write(&server, "users", IDS - 50..IDS);
    refuses_strangers(&guard, "it is refilled").await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

/// Only the poll sees it: nobody asks for anything meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_config_was_another_is_taken_back_and_a_refill_follows() {
    let server = RedisServer::start();
    let writer = Writer::redisson(IDS);
    writer.write(&server, 0..IDS);
    let guard = refilling(&server, writer.filter(), 0..IDS + 10);
    trust(&guard).await;
    server.run::<()>(&["HINCRBY", "{users}:config", "size", "-64"]);
    untrusted(&guard).await;
    // Another program inserts by the other numbers.
    let mut others = Writer::redisson(IDS);
    (others.bits, others.config) = (writer.bits - 64, None);
    others.write(&server, IDS..IDS + 10);
    server.run::<()>(&["HINCRBY", "{users}:config", "size", "64"]);
    let newcomer = crate::guarded::connected(&server, writer.filter()).await;
    assert_eq!(refused(&newcomer, 0..IDS + 10).await, [0; 0]);
    refuses_strangers(&guard, "it is refilled").await;
    assert_eq!(refused(&guard, 0..IDS + 10).await, [0; 0]);
    assert_eq!(refused(&newcomer, 0..IDS + 10).await, [0; 0]);
}

/// They stay in the filter for as long as it lives.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_ids_put_no_refill_off() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let guard = refilling(&server, writer.filter(), 0..IDS * 2 / 3);
    trust(&guard).await;
    for refill in ["the first", "the second"] {
        server.run::<()>(&["COPY", writer.key, "copy", "REPLACE"]);
        server.run::<()>(&["DEL", writer.key]);
        untrusted(&guard).await;
        server.run::<()>(&["RENAME", "copy", writer.key]);
        refuses_strangers(&guard, refill).await;
    }
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

/// Each leaves a seal, which counts as sixteen ids.
#[tokio::test(flavor = "multi_thread")]
async fn refills_that_were_cut_off_leave_one_seal_in_a_modules_filter() {
    let server = redisbloom::server();
    redisbloom::write(&server, "users", 0..IDS);
    let filter = || ForeignFilter::redisbloom("users");
    let mut held = Held { gate: Arc::new(Semaphore::new(0)), scans: Arc::default() };
    let mut guard = over(&server, filter(), held.clone());
    trust(&guard).await;
    server.run::<()>(&["DEL", "users"]);
    untrusted(&guard).await;
    // The writer has made it anew, and it is empty.
    server.run::<()>(&["BF.RESERVE", "users", "0.01", "8000"]);
    for _ in 0..2 {
        eventually("a refill is under way", SOON, || async {
            if held.scans.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        held = Held { gate: Arc::new(Semaphore::new(0)), scans: Arc::default() };
        guard = over(&server, filter(), held.clone());
    }
    drop(guard);
    let last = refilling(&server, filter(), 0..IDS);
    refuses_strangers(&last, "the next refill follows").await;
    assert_eq!(refused(&last, 0..IDS).await, [0; 0]);
}
