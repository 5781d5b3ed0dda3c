//! Records that the guard was not told of: how often the filter is rebuilt for them, and that each comes to
//! the application once. Hours pass, in virtual time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::{
    BloomGuard, BoxError, Doubt, Finding, IdSink, PathPattern, RebuildSource, Schedule,
};
use http::StatusCode;
use support::eventually;
use support::model::{Table, get, guard_over, live};
use support::redis_server::RedisServer;
use tokio::time::sleep;

const IDS: u64 = 10_000;
const HOURS: u64 = 3;
const REQUESTS_PER_SECOND: u32 = 10;
/// How long the source is read for.
const SCAN: Duration = Duration::from_secs(30);

/// Takes its time.
struct Slow(Table);

impl RebuildSource for Slow {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        RebuildSource::scan(&self.0, ids).await?;
        sleep(SCAN).await;
        Ok(())
    }
}

/// What the hours came to.
#[derive(Debug, Default)]
struct Time {
    rebuilds: u64,
    longest_unready: u64,
    unready: u64,
    refused: u64,
    found: Vec<Finding>,
}

/// Asks for existing rows all the time; writes a row each hour that nobody tells of, if so chosen.
async fn hours(a_wrong_row_an_hour: bool) -> Time {
    let table = Table::with(0..IDS);
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .capacity(2 * IDS, 1e-6)
        .rebuild(Schedule::every(Duration::from_secs(3_600)), Slow(table.clone()))
        .build()
        .unwrap();
    guard.ready().await;
    let found = Arc::new(Mutex::new(Vec::new()));
    let taking = tokio::spawn({
        let (guard, found) = (guard.clone(), Arc::clone(&found));
        async move {
            loop {
                let finding = guard.next_finding().await;
                found.lock().unwrap().push(finding);
            }
        }
    });
    let (mut time, mut rows, mut unready_for) = (Time::default(), IDS, 0);
    let mut random = 1_u64;
    for second in 0..HOURS * 3_600 {
        if a_wrong_row_an_hour && second % 3_600 == 1_800 {
            table.commit(rows);
            rows += 1;
        }
        for _ in 0..REQUESTS_PER_SECOND {
            if guard.state().live == Err(Doubt::Disproved) {
                // A scan's ids are put into the filter by a thread, for which the paused clock does not wait.
                let moment = || std::thread::sleep(Duration::from_millis(2));
                tokio::task::spawn_blocking(moment).await.unwrap();
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let status = get(&guard, &table, (random >> 33) % rows).await;
            time.refused += u64::from(status == StatusCode::NOT_FOUND);
            sleep(Duration::from_secs(1) / REQUESTS_PER_SECOND).await;
        }
        let is_ready = guard.state().is_ready();
        unready_for = if is_ready { 0 } else { unready_for + 1 };
        time.unready += u64::from(!is_ready);
        time.longest_unready = time.longest_unready.max(unready_for);
    }
    taking.abort();
    time.rebuilds = guard.stats().rebuilds;
    time.found = std::mem::take(&mut *found.lock().unwrap());
    assert_eq!(time.found.len() as u64, guard.stats().false_negatives, "each alarm is told");
    time
}

/// The schedule alone makes a rebuild an hour; each of its filters may be disproved once. Each finding is told once a
/// generation.
#[tokio::test(start_paused = true)]
async fn one_row_an_hour_that_nobody_told_of_costs_one_rebuild_each_at_most() {
    let time = hours(true).await;
    let found = time.found.iter();
    let told: HashSet<_> = found.map(|finding| (finding.id.clone(), finding.generation)).collect();
    assert_eq!(told.len(), time.found.len());
    assert!(!told.is_empty() && time.found.iter().all(|finding| finding.dropped_before == 0));
    assert!(time.rebuilds <= 2 * HOURS + 2, "{time:?}");
    assert!(time.longest_unready <= SCAN.as_secs() + 5, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn without_wrong_rows_there_are_no_findings() {
    let time = hours(false).await;
    assert!((HOURS - 1..=HOURS + 1).contains(&time.rebuilds), "{time:?}");
    assert_eq!((time.refused, time.found.len(), time.unready), (0, 0, 0));
}

/// With Redis; in the same way as in process.
#[tokio::test]
async fn a_finding_names_the_record_that_has_been_inserted_and_the_generation_that_lacked_it() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let generation = guard.state().live.unwrap().generation;
    guard.set_mode(bloom_guard::Mode::Shadow);
    table.commit(1_000);
    for _ in 0..3 {
        assert_eq!(get(&guard, &table, 1_000).await, StatusCode::OK);
    }
    let finding = guard.next_finding().await;
    assert_eq!(finding.id.as_bytes(), b"1000");
    assert_eq!(finding.generation, Some(generation));
    assert_eq!((finding.proof, finding.dropped_before), (bloom_guard::Proof::Filter, 0));
    eventually("it is in the filter", Duration::from_secs(20), || async {
        match guard.check(&1_000).await.unwrap() {
            bloom_guard::Verdict::Present => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(guard.stats().false_negatives, 1, "once");
}
