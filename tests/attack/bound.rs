//! The bound on what an attacker makes the database do, way by way, at four times the lane's rate. Time is
//! the runtime's, so that a minute of flood takes a second.

use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{BloomGuard, NegativeCaching, Removed, Schedule, Verdict};
use http::{Method, Request};
use support::flood::{LATENCY, Site, every_ms};
use support::model::{Strangers, Table, in_process, ready, while_the_clock_stands};
use tokio::time::{advance, sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// A null's life.
const TTL: Duration = Duration::from_secs(10);
/// Requests in a millisecond: four times the lane's rate.
const PER_MS: u64 = 2;
const LANE: (f64, f64) = (64.0, 500.0);
const IDS: u64 = 100_000;
/// How long each flood lasts.
const SECONDS: u64 = 30;

/// How the attacker asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    /// With credentials that nobody has seen before.
    JunkCookies,
    /// With a query that nobody has seen before.
    Queries,
    Head,
    /// Gone after a millisecond, before the answer.
    HangUps,
    /// Where a 404 counts only when marked, and none is.
    Unmarked,
}

const WAYS: [Way; 6] =
    [Way::Plain, Way::JunkCookies, Way::Queries, Way::Head, Way::HangUps, Way::Unmarked];

/// A guard that is asked in this way, over so many ids of which one absent one in a hundred passes.
async fn site(way: Way, ids: u64, ttl: Duration) -> Arc<Site> {
    let table = Table::with(0..ids);
    let caching = NegativeCaching::new().ttl(ttl).require_marker(way == Way::Unmarked);
    let builder = in_process(&table, ids, 0.01).negative_caching(caching);
    Site::new(&table, builder.build().unwrap()).await
}

fn request(way: Way, id: u64, number: u64) -> Request<String> {
    let request = Request::builder();
    let request = match way {
        Way::JunkCookies => request.header("cookie", format!("session={number}")),
        Way::Head => request.method(Method::HEAD),
        _ => request,
    };
    let query = if way == Way::Queries { format!("?page={number}") } else { String::new() };
    request.uri(format!("/users/{id}{query}")).body(String::new()).unwrap()
}

/// Floods for so many seconds; returns how often the handler was called.
async fn flood(site: &Arc<Site>, way: Way, seconds: u64, id: impl Fn(u64) -> u64) -> u64 {
    let before = site.calls();
    let patience = if way == Way::HangUps { MS } else { SECOND };
    every_ms(seconds * 1_000, |ms| {
        let numbers = ms * PER_MS..(ms + 1) * PER_MS;
        let ask = |n| timeout(patience, Arc::clone(site).ask(id(n), request(way, id(n), n)));
        numbers.map(ask).collect()
    })
    .await;
    site.calls() - before
}

/// What the lane lets through in so many seconds.
fn lane(seconds: u64) -> f64 {
    LANE.0 + LANE.1 * seconds as f64
}

/// How often so many ids pass outside of the lane in so many seconds: once, and once for each life of a
/// null, which is a tenth shorter at the least; and each time what arrives before the answer.
fn passes(ids: usize, seconds: u64, ttl: Duration) -> f64 {
    let lives = seconds as f64 / (0.9 * ttl.as_secs_f64());
    (ids as f64 + (PER_MS * LATENCY) as f64) * (1.0 + lives.floor())
}

#[track_caller]
fn hold(what: &str, way: Way, calls: u64, bound: f64) {
    assert!(calls as f64 <= bound, "{what}, {way:?}: {calls} handler calls, bound {bound:.0}");
}

#[tokio::test(start_paused = true)]
async fn random_absent_ids_cost_what_the_false_positive_rate_says() {
    for way in WAYS {
        let site = site(way, IDS, TTL).await;
        let strangers: Vec<u64> = Strangers(11).take(60_000).collect();
        let calls = flood(&site, way, SECONDS, |n| strangers[n as usize]).await;
        // Each is asked for once, so nothing is replayed: R·f, and five standard deviations. With three, the six ways
        // would exceed it by chance in one run of a hundred.
        let expected = strangers.len() as f64 * 0.01;
        hold("random absent ids", way, calls, expected + 5.0 * expected.sqrt());
    }
}

#[tokio::test(start_paused = true)]
async fn replayed_false_positives_cost_one_look_up_a_null_or_the_lane() {
    for way in WAYS {
        let site = site(way, IDS, TTL).await;
        // All that a scan of 100,000 absent ids finds: every one of them is replayed, again and again.
        let known = site.false_positives(1_000).await;
        let calls = flood(&site, way, SECONDS, |n| known[n as usize % known.len()]).await;
        let lane = if way == Way::Plain { 0.0 } else { lane(SECONDS) };
        hold("1,000 false positives", way, calls, passes(known.len(), SECONDS, TTL) + lane);
        // They die with their generation: one in a hundred is one of the next filter, too.
        while_the_clock_stands(site.guard.rebuild_now()).await.unwrap();
        let verdicts = site.guard.check_many(&known).await.unwrap();
        let left = verdicts.iter().filter(|verdict| **verdict == Verdict::Present).count();
        assert!(left < 30, "{left} of {} are found again", known.len());
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_deleted_ids_cost_one_look_up_a_null_or_the_lane() {
    for way in WAYS {
        let site = site(way, IDS, TTL).await;
        (0..10_000).for_each(|id| site.table.delete(id));
        let calls = flood(&site, way, SECONDS, |n| n % 10_000).await;
        // More 404s a second than nulls may be written: the others keep to the lane.
        hold("10,000 deleted ids", way, calls, passes(10_000, SECONDS, TTL) + lane(SECONDS));
    }
}

/// One id that was found, and then deleted: told by `remove`, or not told.
#[tokio::test(start_paused = true)]
async fn a_hot_id_that_is_deleted_costs_no_more_than_any_other() {
    for way in WAYS {
        for told in [true, false] {
            let site = site(way, IDS, TTL).await;
            // Removals are remembered once all that an earlier life inserted is no more recent.
            advance(Duration::from_secs(31 * 60 + 3)).await;
            flood(&site, Way::Plain, 1, |_| 7).await;
            assert!(site.guard.stats().admitted_found > 1_900, "it is found lately");
            site.table.delete(7);
            if told {
                assert_eq!(site.guard.remove(&7).await.unwrap(), Removed::Remembered);
                let calls = flood(&site, way, SECONDS, |_| 7).await;
                hold("a deleted id, told", way, calls, 0.0);
            } else if let Way::HangUps | Way::Unmarked = way {
                // Never answered by a 404 that counts, it costs for ten minutes what it cost before.
                let calls = flood(&site, way, 600 + SECONDS, |_| 7).await;
                let found = 600.0 * 1_000.0 * PER_MS as f64;
                let bound = found + passes(1, SECONDS, TTL) + lane(SECONDS);
                hold("a deleted id, not told", way, calls, bound);
            } else {
                let calls = flood(&site, way, SECONDS, |_| 7).await;
                // The first 404 ends that it was found; the next one is learnt from.
                let before = (PER_MS * LATENCY) as f64;
                let lane = if way == Way::Plain { 0.0 } else { lane(SECONDS) };
                hold("a deleted id, not told", way, calls, passes(1, SECONDS, TTL) + before + lane);
            }
        }
    }
}

/// As many missed ids as the set is meant for.
#[tokio::test(start_paused = true)]
async fn the_bound_holds_for_as_many_missed_ids_as_are_remembered() {
    const SECONDS: u64 = 100;
    const MISSED: u64 = 100_000;
    let ttl = Duration::from_secs(600);
    let site = site(Way::JunkCookies, MISSED, ttl).await;
    (0..MISSED).for_each(|id| site.table.delete(id));
    let calls = flood(&site, Way::JunkCookies, SECONDS, |n| n * 7919 % MISSED).await;
    // A few lines of the set overflow: less than one id in a hundred.
    let bound = passes(MISSED as usize, SECONDS, ttl) * 1.01 + lane(SECONDS);
    hold("100,000 missed ids", Way::JunkCookies, calls, bound);
}

/// A table that doubles between two rebuilds.
#[tokio::test(start_paused = true)]
async fn a_filter_that_holds_twice_its_ids_is_rebuilt_before_its_schedule_and_seldom() {
    const HOUR: Duration = Duration::from_secs(3600);
    for (schedule, hastens) in [(Schedule::every(HOUR), true), (Schedule::manual(), false)] {
        let table = Table::with(0..10_000);
        let guard = in_process(&table, 10_000, 0.001).rebuild(schedule, table.clone());
        let guard = guard.build().unwrap();
        ready(&guard).await;
        let built = guard.state().live.unwrap();
        let rate = |guard: &BloomGuard| guard.state().live.unwrap().expected_rate;
        assert!(rate(&guard) < 0.0015);
        let more = 10_000..20_000;
        guard.insert_many(more.clone()).await.unwrap();
        more.for_each(|id| table.commit(id));
        assert!(rate(&guard) > 0.01, "{}", rate(&guard));
        sleep(HOUR / 20).await;
        assert_eq!(guard.state().live.unwrap().generation, built.generation);
        sleep(HOUR / 10).await;
        let waits = std::time::Instant::now();
        while_the_clock_stands(async {
            while hastens
                && guard.state().live.unwrap().generation == built.generation
                && waits.elapsed() < 30 * SECOND
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let live = guard.state().live.unwrap();
        assert_eq!(live.generation != built.generation, hastens);
        assert_eq!(rate(&guard) < 0.0015, hastens);
        if hastens {
            sleep(HOUR * 4 / 5).await;
            assert_eq!(guard.state().live.unwrap().generation, live.generation);
        }
    }
}
