//! What copies of the filter cost the database: a false positive or a deleted id passes once in each process before
//! Redis is asked for it.
//!
//! With P processes the bound is R·f·(1 + P + T/t) + D·(1/t + P/T) + L; without copies it is R·f·(1 + T/t) + D/t + L. Here
//! nulls outlive the test, so that T/t and 1/t are nothing or one.

use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, NegativeCaching, Verdict};
use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use support::model::{Strangers, Table, brief, copied, guard_over, handler, live, removed};
use support::redis_server::RedisServer;
use tower::{Layer, ServiceExt};

const IDS: u64 = 20_000;
const RATE: f64 = 0.01;
/// False positives that are replayed, and ids of each kind that are deleted.
const KNOWN: usize = 200;
/// How often each is asked for in each process.
const ROUNDS: usize = 4;
const LANE: (f64, f64) = (64.0, 500.0);
const WIDE: (u32, u32) = (100_000, 1_000_000);

/// How the attacker asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Cookie,
    Query,
    Head,
    /// Gone before the answer.
    HangUp,
}

/// The processes of a service on one Redis.
struct Fleet {
    redis: RedisServer,
    table: Table,
    processes: Vec<BloomGuard>,
}

impl Fleet {
    async fn new(ids: u64, processes: usize, lane: (u32, u32)) -> Self {
        let redis = RedisServer::start();
        let table = Table::with(0..ids);
        let mut fleet = Self { redis, table, processes: Vec::new() };
        for _ in 0..processes {
            // As brief as a handler of `brief`.
            let caching = NegativeCaching::new()
                .ttl(Duration::from_secs(3600))
                .handler_time(Duration::from_millis(100));
            let builder = brief(guard_over(&fleet.redis.url(), &fleet.table)).capacity(ids, RATE);
            let builder = builder.negative_caching(caching).copy_limit(64 << 20);
            let guard = builder.lane(lane.0, lane.1).build().unwrap();
            live(&guard).await;
            fleet.processes.push(guard);
        }
        for guard in &fleet.processes {
            copied(guard).await;
        }
        // Nulls are written only where nothing that an earlier life inserted is recent.
        fleet.redis.age();
        fleet
    }

    /// So many ids that do not exist and that the filter lets pass.
    async fn false_positives(&self, count: usize) -> Vec<u64> {
        let mut known = Vec::new();
        let mut strangers = Strangers(3);
        while known.len() < count {
            let ids: Vec<u64> = strangers.by_ref().take(1_000).collect();
            let verdicts = self.processes[0].check_many(&ids).await.unwrap();
            let present =
                ids.iter().zip(verdicts).filter(|(_, verdict)| *verdict == Verdict::Present);
            known.extend(present.map(|(id, _)| *id));
        }
        known.truncate(count);
        known
    }

    /// Asks for each id in each process; returns how often the database was asked.
    async fn ask_all(&self, ids: &[u64], way: Way) -> u64 {
        let before = self.table.lookups();
        for guard in &self.processes {
            for id in ids {
                ask(guard, &self.table, *id, way).await;
            }
        }
        self.table.lookups() - before
    }
}

async fn ask(guard: &BloomGuard, table: &Table, id: u64, way: Way) {
    let request = Request::builder();
    let (request, query) = match way {
        Way::Cookie => (request.header("cookie", "session=1"), ""),
        Way::Query => (request, "?page=1"),
        Way::Head => (request.method(Method::HEAD), ""),
        Way::Plain | Way::HangUp => (request, ""),
    };
    let request = request.uri(format!("/users/{id}{query}")).body(String::new()).unwrap();
    let inner = handler(table);
    let service = tower::service_fn(move |request| {
        let response = inner.clone().oneshot(request);
        async move {
            let response = response.await;
            if way == Way::HangUp {
                std::future::pending::<()>().await;
            }
            response
        }
    });
    let answer = guard.layer(service).oneshot(request);
    if way == Way::HangUp {
        // A request that reaches the handler has asked the database by then.
        tokio::time::timeout(Duration::from_millis(20), answer).await.ok();
        return;
    }
    let status = answer.await.unwrap().status();
    assert!(
        status == StatusCode::NOT_FOUND || status == StatusCode::SERVICE_UNAVAILABLE,
        "{status}"
    );
}

/// Of a hundred nulls one may not be stored, where Redis is slow for a moment.
#[track_caller]
fn hold(what: &str, processes: usize, way: Way, calls: u64, bound: f64) {
    assert!(
        calls as f64 <= bound * 1.01,
        "{what}, {processes}, {way:?}: {calls} look-ups, bound {bound:.0}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn replayed_ids_pass_once_in_each_process_and_once_through_redis() {
    for processes in [2, 4] {
        let fleet = Fleet::new(IDS, processes, WIDE).await;
        let known = fleet.false_positives(KNOWN).await;
        let (deleted, told): (Vec<u64>, Vec<u64>) =
            (0..2 * KNOWN as u64).partition(|id| id % 2 == 0);
        deleted.iter().chain(&told).for_each(|id| fleet.table.delete(*id));
        for id in &told {
            removed(&fleet.processes[0], *id).await;
        }
        let mut calls = [0; 3];
        for _ in 0..ROUNDS {
            for (calls, ids) in calls.iter_mut().zip([&known, &deleted, &told]) {
                *calls += fleet.ask_all(ids, Way::Plain).await;
            }
        }
        let (one, all) = (KNOWN as f64, (KNOWN * processes) as f64);
        hold("false positives", processes, Way::Plain, calls[0], one + all);
        hold("deleted ids", processes, Way::Plain, calls[1], one + all);
        hold("deleted ids, told", processes, Way::Plain, calls[2], all - one);
        assert!(calls[0] as f64 >= all, "the price of copies is seen");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_no_null_keeps_to_the_lane_of_each_process() {
    for (processes, way) in [(4, Way::Cookie), (2, Way::Query), (2, Way::Head), (2, Way::HangUp)] {
        let fleet = Fleet::new(IDS, processes, (64, 500)).await;
        let known = fleet.false_positives(KNOWN).await;
        let begun = Instant::now();
        let mut calls = 0;
        for _ in 0..ROUNDS {
            calls += fleet.ask_all(&known, way).await;
        }
        let lane = processes as f64 * (LANE.0 + LANE.1 * begun.elapsed().as_secs_f64());
        let all = (KNOWN * processes) as f64;
        hold("false positives", processes, way, calls, all + lane);
    }
}

/// Does something with each of so many ids, many at a time.
async fn at_once(ids: u64, guard: &BloomGuard, does: impl AsyncFn(&BloomGuard, u64)) {
    const AT_ONCE: u64 = 64;
    let does = &does;
    let clients = (0..AT_ONCE).map(|client| async move {
        for id in (client..ids).step_by(AT_ONCE as usize) {
            does(guard, id).await;
        }
    });
    join_all(clients).await;
}

/// The share of ids about which a copy is silent with so many suspects, as the guide says.
fn stated_silence() -> f64 {
    // Lines end where they may.
    let guide: Vec<_> = include_str!("../../src/guide/attackers.md").split_whitespace().collect();
    let guide = guide.join(" ");
    let (before, _) = guide.split_once(" % with 400,000").expect("the guide says so");
    before.rsplit(' ').next().and_then(|share| share.parse::<f64>().ok()).expect("a share") / 100.0
}

/// More suspects than can be remembered, told by `remove`.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_would_have_to_forget_a_suspect_is_silent_about_it() {
    const SUSPECTS: u64 = 400_000;
    let fleet = Fleet::new(SUSPECTS, 1, (64, 500)).await;
    let guard = &fleet.processes[0];
    (0..SUSPECTS).for_each(|id| fleet.table.delete(id));
    // Redis may be slow for a moment.
    at_once(SUSPECTS, guard, async |guard, id| while guard.remove(&id).await.is_err() {}).await;
    let silent = guard.state().copy.unwrap().silent;
    let stated = stated_silence();
    assert!((silent - stated).abs() < 0.05, "{silent}, the guide says {stated}");
    let table = &fleet.table;
    at_once(SUSPECTS, guard, async |guard, id| ask(guard, table, id, Way::Plain).await).await;
    assert_eq!(guard.stats().admitted_copied, 0, "none passes by the copy");
}
