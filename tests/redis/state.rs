//! What the guard says of itself is true: what fails, since when, why, and what to do about it.

use std::time::Duration;

use bloom_guard::observe::GuardState;
use bloom_guard::rebuild::RebuildStep;
use bloom_guard::{BloomGuard, Doubt, RebuildError, Refusal, Verdict};
use support::eventually;
use support::model::{Table, brief, guard, guard_over, live};
use support::redis_server::RedisServer;

const SOON: Duration = Duration::from_secs(10);

/// Waits until the state is as it should be; asks the guard nothing else.
async fn state(guard: &BloomGuard, what: &str, is: impl Fn(&GuardState) -> bool) -> GuardState {
    eventually(what, SOON, || async {
        let state = guard.state();
        if is(&state) { Ok(state) } else { Err(format!("{state}")) }
    })
    .await
}

/// Waits until no filter answers, for this reason.
async fn doubts(guard: &BloomGuard, doubt: Doubt) -> GuardState {
    let state = state(guard, "no filter answers", |state| state.live == Err(doubt)).await;
    let trouble = state.trouble.as_deref().expect("there is trouble");
    assert!(trouble.contains(doubt.advice()), "{trouble}");
    assert!(format!("{state}").contains(doubt.advice()), "{state}");
    state
}

/// All is well: nothing is said to be wrong.
async fn well(guard: &BloomGuard) -> GuardState {
    state(guard, "all is well", |state| state.live.is_ok() && state.trouble.is_none()).await
}

/// A server with a user whose rights can be taken away, and the URL of that user.
fn with_user() -> (RedisServer, String) {
    let redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "guard", "on", ">s3cret", "~bg:*", "+@all"]);
    let url = format!("redis://guard:s3cret@127.0.0.1:{}/", redis.port());
    (redis, url)
}

#[tokio::test]
async fn a_guard_that_nobody_asks_knows_its_filter() {
    let redis = RedisServer::start();
    let builder = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&builder).await;
    let idle = guard(&redis.url()).build().unwrap();
    let state = well(&idle).await;
    assert_eq!(state.live.unwrap().items, 1_000);
    assert!(state.checks.succeeded.is_some() && state.checks.failing.is_none());
    assert_eq!(
        (idle.stats().present, idle.stats().absent_by_filter, idle.stats().unknown),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn a_right_to_insert_that_is_missing_is_told() {
    let (redis, url) = with_user();
    let table = Table::with(0..1_000);
    let guard = guard_over(&url, &table).build().unwrap();
    live(&guard).await;
    guard.insert(&7).await.unwrap();
    let state = well(&guard).await;
    assert!(state.inserts.succeeded.is_some() && state.inserts.failing.is_none());

    redis.run::<()>(&["ACL", "SETUSER", "guard", "-zadd"]);
    for _ in 0..3 {
        let error = guard.insert(&5_000).await.unwrap_err();
        assert_eq!(error.advice(), Doubt::Refused(Refusal::DENIED).advice(), "{error}");
    }
    let state = guard.state();
    let failure = state.inserts.failing.clone().expect("inserts fail");
    assert!(failure.count == 3 && failure.since >= failure.last, "{state}");
    assert_eq!(failure.advice, Doubt::Refused(Refusal::DENIED).advice());
    assert!(failure.cause.contains("can't run this command"), "{}", failure.cause);
    let trouble = state.trouble.expect("there is trouble");
    assert!(trouble.contains("inserts: failing"), "{trouble}");
    assert!(state.live.is_ok(), "checks go on");

    redis.run::<()>(&["ACL", "SETUSER", "guard", "+zadd"]);
    guard.insert(&5_000).await.unwrap();
    let state = well(&guard).await;
    assert!(state.inserts.failing.is_none(), "{state}");
}

#[tokio::test]
async fn a_right_to_check_that_is_missing_is_told_without_a_request() {
    let (redis, url) = with_user();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    let asked = guard(&url).build().unwrap();
    live(&asked).await;
    redis.run::<()>(&["ACL", "SETUSER", "guard", "-mget"]);
    assert_eq!(
        asked.check(&5_000).await.unwrap(),
        Verdict::Unknown(Doubt::Refused(Refusal::DENIED))
    );
    let at_once = asked.state();
    assert_eq!(at_once.live, Err(Doubt::Refused(Refusal::DENIED)), "{at_once}");
    let state = doubts(&asked, Doubt::Refused(Refusal::DENIED)).await;
    assert!(state.checks.failing.is_some() && state.checks.succeeded.is_some(), "{state}");
    let idle = guard(&url).build().unwrap();
    doubts(&idle, Doubt::Refused(Refusal::DENIED)).await;

    redis.run::<()>(&["ACL", "SETUSER", "guard", "+mget"]);
    well(&asked).await;
    well(&idle).await;
}

#[tokio::test]
async fn a_redis_that_runs_no_scripts_is_told() {
    let redis = RedisServer::with(&["--rename-command", "EVALSHA", ""]);
    let guard = guard_over(&redis.url(), &Table::with(0..10)).build().unwrap();
    let state = doubts(&guard, Doubt::Refused(Refusal::UNSUPPORTED)).await;
    assert!(state.trouble.is_some_and(|trouble| trouble.to_lowercase().contains("evalsha")));
}

#[tokio::test]
async fn a_filter_that_is_gone_is_told_from_one_that_was_never_built() {
    let redis = RedisServer::start();
    let newcomer = guard(&redis.url()).build().unwrap();
    doubts(&newcomer, Doubt::NoFilter).await;
    let builder = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&builder).await;
    well(&newcomer).await;
    drop(builder);
    redis.run::<()>(&["FLUSHALL"]);
    let state = doubts(&newcomer, Doubt::Gone).await;
    assert!(state.trouble.is_some_and(|trouble| trouble.contains("FLUSHALL")));
}

#[tokio::test]
async fn a_record_that_reaches_back_too_short_is_told_and_a_rebuild_waits_without_failing() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let ours = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&ours).await;
    let state_before = state(&ours, "the record is asked", |state| state.record.is_some()).await;
    let record = state_before.record.unwrap();
    assert!(record.reaches.is_none() && !record.is_too_short(), "{record}");
    assert_eq!((record.ids, record.required), (0, Duration::from_micros(6_362_500)), "{record}");

    let other = guard_over(&redis.url(), &table).build().unwrap();
    live(&other).await;
    other.insert(&5_000).await.unwrap();
    redis.run::<i64>(&["DEL", "bg:{users}:recent"]);
    other.insert(&5_001).await.unwrap();
    let short = |state: &GuardState| state.record.is_some_and(|record| record.is_too_short());
    for guard in [&ours, &other] {
        let state = state(guard, "the record is too short", short).await;
        assert_eq!(state.record.unwrap().ids, 1, "{state}");
        assert!(state.trouble.is_some_and(|trouble| trouble.contains("recent inserts: 1 ids")));
    }
    // The longest transaction that any process states is open for a quarter of an hour.
    let rebuilding = tokio::spawn({
        let other = other.clone();
        async move { other.rebuild_now().await.map(drop) }
    });
    tokio::time::sleep(SOON / 2).await;
    assert!(!rebuilding.is_finished(), "it waits");
    let state = other.state();
    assert_eq!(other.rebuild_status().step, RebuildStep::Recent, "{state}");
    assert!(state.rebuilds.failing.is_none() && state.live.is_ok(), "{state}");
}

#[tokio::test]
async fn a_failed_rebuild_is_over_when_another_process_has_rebuilt() {
    let redis = RedisServer::start();
    let empty = Table::default();
    let failing = guard_over(&redis.url(), &empty).build().unwrap();
    let why = |state: &GuardState| state.rebuilds.failing.is_some();
    let before = state(&failing, "its source gives nothing", why).await;
    assert_eq!(before.rebuilds.failing.unwrap().advice, RebuildError::Empty.advice());
    let other = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&other).await;
    well(&failing).await;
}
