//! What a guard on a real server logs: each event once, and each beginning with its end.

use std::time::Duration;

use bloom_guard::{BloomGuard, Builder, Mode, OnUnknown, PathPattern, Schedule};
use support::log::Log;
use support::model::{Table, brief, get, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

const SIZING: &str = "sized by other settings";

const LOST: &str = "there is no connection to redis";
const AGAIN: &str = "connected to redis again";
const BUSY: &str = "503";

/// Waits until a line with this text is there.
async fn told(log: &Log, text: &str) {
    eventually(text, Duration::from_secs(20), || async {
        if log.with(text).is_empty() { Err(format!("{:?}", log.with(""))) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_filter_that_is_disproved_twice_is_told_of() {
    let (log, _kept) = Log::begin();
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.set_mode(Mode::Shadow);
    let other = Table::with(1_000..1_003);
    let first = guard.state().live.unwrap().generation;
    assert_eq!(get(&guard, &other, 1_000).await, 200);
    eventually("another filter is live", Duration::from_secs(20), || async {
        match guard.state().live {
            Ok(live) if live.generation > first => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for id in [1_001, 1_002] {
        assert_eq!(get(&guard, &other, id).await, 200);
    }
    told(&log, "and from the one before").await;
    let lines = log.with("and from the one before");
    assert!(lines.len() == 1 && lines[0].starts_with("ERROR"), "{lines:?}");
    assert!(lines[0].contains("Is the name used by two services?"), "{lines:?}");
}

/// A difference is told of once, with both values, however often it is met.
#[tokio::test]
async fn processes_that_disagree_on_the_size_say_so_once() {
    type Setting = fn(Builder) -> Builder;
    let settings: [(Setting, Setting, [&str; 4]); 2] = [
        (
            |one| one.capacity(10_000, 0.01),
            |other| other.capacity(20_000, 0.01),
            ["capacity=20000", "live_capacity=10000", " rate=0.01", "filter=\"users\""],
        ),
        (
            |one| one.capacity(10_000, 0.01),
            |other| other.capacity(10_000, 0.001),
            [" capacity=10000", "live_capacity=10000", " rate=0.001", "live_rate=0.01"],
        ),
    ];
    for (one, other, values) in settings {
        let (log, _kept) = Log::begin();
        let (redis, table) = (RedisServer::start(), Table::with(0..100));
        let one = one(guard_over(&redis.url(), &table)).build().unwrap();
        live(&one).await;
        assert_eq!(log.with(SIZING), [""; 0]);
        let other = other(guard(&redis.url())).build().unwrap();
        live(&other).await;
        for _ in 0..3 {
            one.rebuild_now().await.unwrap();
            live(&other).await;
            other.insert(&7).await.unwrap();
        }
        told(&log, SIZING).await;
        let told = log.with(SIZING);
        assert!(told.len() == 1 && told[0].starts_with("WARN"), "{told:?}");
        assert!(values.iter().all(|value| told[0].contains(value)), "{told:?}");
    }
}

#[tokio::test]
async fn a_source_that_outgrew_the_capacity_and_processes_that_agree_have_nothing_to_say() {
    let (log, _kept) = Log::begin();
    let (redis, table) = (RedisServer::start(), Table::with(0..5_000));
    let build = || guard_over(&redis.url(), &table).capacity(1_000, 0.01).build().unwrap();
    let (one, other) = (build(), build());
    live(&one).await;
    other.rebuild_now().await.unwrap();
    live(&one).await;
    live(&other).await;
    assert_eq!(log.with(SIZING), [""; 0]);
}

/// Two guards under traffic, of which each request is answered 503 while nothing is known.
struct Service {
    table: Table,
    guards: [BloomGuard; 2],
}

impl Service {
    const NAMES: [&str; 2] = ["users", "orders"];

    async fn start(redis: &RedisServer) -> Self {
        let table = Table::with(0..100);
        let guards = Self::NAMES.map(|name| {
            BloomGuard::builder(name, PathPattern::<u64>::new("/users/{id}").unwrap())
                .redis(&redis.url())
                .settle(Duration::ZERO)
                .check_deadline(Duration::from_secs(1))
                .on_unknown(OnUnknown::Shed)
                .rebuild(Schedule::manual(), table.clone())
                .build()
                .unwrap()
        });
        live(&guards[0]).await;
        live(&guards[1]).await;
        Self { table, guards }
    }

    /// Asks and inserts, as each request of a burst does.
    async fn ask(&self) {
        for guard in &self.guards {
            get(guard, &self.table, 1_000).await;
            guard.insert(&7).await.ok();
        }
    }

    async fn is_back(&self) {
        for guard in &self.guards {
            live(guard).await;
        }
    }
}

/// Each guard has told of one loss and one end, in this order, and of requests that were answered 503.
async fn told_once(log: &Log, service: Service, cause: &str) {
    for (name, guard) in Service::NAMES.iter().zip(service.guards) {
        let of_filter = |text: &str| -> Vec<String> {
            let lines = log.with(text).into_iter();
            lines.filter(|line| line.contains(&format!("filter={name:?}"))).collect()
        };
        eventually("the end is told of", Duration::from_secs(10), || async {
            if of_filter(AGAIN).is_empty() { Err(format!("{:?}", log.with(""))) } else { Ok(()) }
        })
        .await;
        let (lost, again) = (of_filter(LOST), of_filter(AGAIN));
        assert_eq!((lost.len(), again.len()), (1, 1), "{lost:?}, {again:?}");
        assert!(lost[0].starts_with("WARN") && lost[0].contains(cause), "{lost:?}");
        assert!(
            lost[0].contains("127.0.0.1:") && lost[0].contains("see that redis runs"),
            "{lost:?}"
        );
        assert!(again[0].starts_with("INFO") && again[0].contains("lost_for="), "{again:?}");
        let answered = guard.stats().overloaded;
        assert!(answered > 1, "{:?}", guard.stats());
        assert!(!of_filter(BUSY).is_empty());
    }
}

#[tokio::test]
async fn a_redis_that_is_killed_or_falls_silent_is_one_line_lost_and_one_line_back() {
    type Step = fn(&mut RedisServer);
    let ways: [(Step, Step, &str); 2] = [
        (RedisServer::kill, RedisServer::restart, "reason="),
        (|redis| redis.pause(), |redis| redis.resume(), "redis did not answer within"),
    ];
    for (stop, start, cause) in ways {
        let (log, _kept) = Log::begin();
        let mut redis = RedisServer::start();
        let service = Service::start(&redis).await;
        let of_this = |text: &str| -> Vec<String> {
            // A guard of the server before may still tell of its end.
            let address = format!(":{}", redis.port());
            log.with(text).into_iter().filter(|line| line.contains(&address)).collect()
        };
        assert_eq!([of_this(LOST), of_this(AGAIN)], [[""; 0], [""; 0]]);
        stop(&mut redis);
        throughout(Duration::from_secs(3), || service.ask()).await;
        assert_eq!(log.with(AGAIN), [""; 0]);
        start(&mut redis);
        service.is_back().await;
        told_once(&log, service, cause).await;
    }
}

#[tokio::test]
async fn a_redis_that_was_emptied_is_one_line_that_says_so_and_one_line_back() {
    let (log, _kept) = Log::begin();
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..100)).build().unwrap();
    live(&guard).await;
    redis.run::<()>(&["FLUSHALL"]);
    told(&log, AGAIN).await;
    guard.insert(&7).await.unwrap();
    live(&guard).await;
    // All three connections have found out by then.
    throughout(Duration::from_secs(2), || async {}).await;
    let lost = log.with(LOST);
    assert!(lost.len() == 1 && lost[0].starts_with("WARN"), "{lost:?}");
    assert!(lost[0].contains("FLUSHALL") && log.with(AGAIN).len() == 1, "{lost:?}");
}

/// A rebuild that cannot read its source is tried each second or so.
#[tokio::test]
async fn attempts_after_a_failed_rebuild_are_no_lines() {
    let (log, _kept) = Log::begin();
    let redis = RedisServer::start();
    let broken = bloom_guard::from_blocking(|_| Err("the database is away".into()));
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), broken).build().unwrap();
    eventually("three attempts", Duration::from_secs(20), || async {
        let failed = guard.stats().rebuilds_failed;
        if failed >= 3 { Ok(()) } else { Err(failed.to_string()) }
    })
    .await;
    let shown =
        |text: &str| log.with(text).into_iter().filter(|line| !line.starts_with("DEBUG")).count();
    assert_eq!(
        (shown("a rebuild begins"), shown("the rebuild failed")),
        (1, 1),
        "{:?}",
        log.with("")
    );
}

/// Its operator would take it for one that hangs.
#[tokio::test]
async fn a_rebuild_that_waits_as_the_record_of_inserts_is_lost_says_so() {
    const WAITS: &str = "the record of recent inserts is not whole";
    let (log, _kept) = Log::begin();
    let (redis, table) = (RedisServer::start(), Table::with(0..100));
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&guard).await;
    guard.insert(&7).await.unwrap();
    guard.rebuild_now().await.unwrap();
    assert_eq!(log.with(WAITS), [""; 0]);
    redis.run::<i64>(&["DEL", "bg:{users}:recent"]);
    guard.rebuild_now().await.unwrap();
    let lines = log.with(WAITS);
    assert!(lines.len() == 1 && lines[0].starts_with("INFO"), "{lines:?}");
    for part in ["filter=\"users\"", "wait="] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
}
