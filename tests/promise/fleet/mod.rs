//! A fleet that changes: other processes create records that this filter is not told of, or know another mode.

mod builds;
mod page;
mod steps;
mod table;

use std::time::Duration;

use bloom_guard::{
    BloomGuard, BoxError, Doubt, FleetError, IdSink, Mode, OnUnknown, RebuildSource, Schedule,
    Verdict,
};
use support::model::{Table, brief, by_default, get, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

const BITS: &str = "bg:{users}:bits";
const META: &str = "bg:{users}:meta";
const SOON: Duration = Duration::from_secs(10);
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
/// So short that a test waits for it.
const BRIEF: Duration = Duration::from_secs(2);

/// Waits until a filter is there, which settles.
async fn settles(guard: &BloomGuard) {
    eventually("the filter settles", SOON, || async {
        let state = guard.state();
        let settles = state.live.is_ok() && state.settling.is_some();
        if settles { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
}

async fn has_mode(guard: &BloomGuard, mode: Mode) {
    eventually("the mode is known", SOON, || async {
        if guard.mode() == mode { Ok(()) } else { Err(format!("{:?}", guard.mode())) }
    })
    .await;
}

#[tokio::test]
async fn what_a_new_filter_lacks_is_not_refused_until_a_rebuild_after_its_time() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).settle(BRIEF).build().unwrap();
    settles(&guard).await;
    // A process without the guard creates it.
    table.commit(4_711);
    assert_eq!(guard.check(&4_711).await, Ok(Verdict::Unknown(Doubt::Settling)));
    assert_eq!(guard.check(&7).await, Ok(Verdict::Present), "what it has passes");
    assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200);
    // It ends by itself, with a filter that has all there is.
    live(&guard).await;
    assert_eq!(guard.state().settling, None);
    assert_eq!(guard.check(&4_711).await, Ok(Verdict::Present));
}

/// A source that takes its time.
struct Slow(Table);

impl RebuildSource for Slow {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.0.scan(ids).await
    }
}

/// Each rebuild takes longer than the end of settling may be off by the clocks.
#[tokio::test]
async fn a_filter_whose_rebuilds_take_long_settles_too() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard(&redis.url()).rebuild(Schedule::manual(), Slow(table.clone())).settle(BRIEF);
    let guard = guard.build().unwrap();
    settles(&guard).await;
    live(&guard).await;
    assert_eq!(guard.state().settling, None);
}

/// Redis's clock was two days ahead when a token was drawn.
#[tokio::test]
async fn a_filter_settles_also_where_the_clock_was_set_back() {
    let redis = RedisServer::start();
    let (now, _): (u64, u64) = redis.run(&["TIME"]);
    let ahead = ((now + 2 * 86_400) * 1_000_000).to_string();
    redis.run::<i64>(&["HSET", "bg:{users}:meta", "epoch", &ahead]);
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).settle(BRIEF).build().unwrap();
    settles(&guard).await;
    live(&guard).await;
    assert_eq!(guard.state().settling, None);
}

#[tokio::test]
async fn a_record_found_while_the_filter_settles_is_inserted_counted_and_no_alarm() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).settle(LONG).build().unwrap();
    settles(&guard).await;
    table.commit(4_711);
    let generation = guard.state().live.unwrap().generation;
    assert_eq!(get(&guard, &table, 4_711).await, 200);
    eventually("it is inserted", SOON, || async {
        let verdict = guard.check(&4_711).await.unwrap();
        if verdict == Verdict::Present { Ok(()) } else { Err(format!("{verdict:?}")) }
    })
    .await;
    let stats = guard.stats();
    assert_eq!((stats.found_unsettled, stats.false_negatives), (1, 0));
    assert_eq!(guard.state().live.unwrap().generation, generation, "nothing is distrusted for it");
}

#[tokio::test]
async fn what_a_new_filter_lacks_shares_the_lane() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = by_default(&redis.url()).rebuild(Schedule::manual(), table.clone());
    let guard = guard.settle(LONG).lane(1, 1).on_unknown(OnUnknown::PassLimited);
    let guard = guard.check_deadline(Duration::from_secs(1)).build().unwrap();
    settles(&guard).await;
    let mut busy = 0;
    for id in 5_000..5_100 {
        busy += u32::from(get(&guard, &table, id).await == 503);
    }
    assert!(busy >= 90, "{busy} of 100 were answered 503");
    assert_eq!(get(&guard, &table, 7).await, 200, "what the filter has needs no lane");
}

#[tokio::test]
async fn a_redis_that_comes_back_empty_under_a_living_fleet_settles_nothing_anew() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = || guard_over(&redis.url(), &table).settle(BRIEF);
    let (first, second) = (builder().build().unwrap(), builder().build().unwrap());
    live(&first).await;
    live(&second).await;
    redis.run::<()>(&["FLUSHALL"]);
    // A process that knows nothing comes at that moment.
    let third = builder().settle(LONG).build().unwrap();
    for guard in [&first, &second, &third] {
        live(guard).await;
        assert_eq!(guard.state().settling, None);
    }
}

#[tokio::test]
async fn a_filter_that_nobody_has_looked_at_for_a_minute_settles_anew() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    live(&first).await;
    drop(first);
    // A roll-back to a version without the guard creates a record, and is rolled forward again.
    table.commit(4_711);
    ages(&redis, 61);
    let again = guard_over(&redis.url(), &table).settle(BRIEF).build().unwrap();
    settles(&again).await;
    assert_eq!(get_looked_up(&again, &table, 4_711).await, 200);
    live(&again).await;
    assert_eq!(again.check(&4_711).await, Ok(Verdict::Present));
}

#[tokio::test]
async fn a_filter_that_was_looked_at_a_moment_ago_is_trusted_by_the_next_process() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    live(&first).await;
    drop(first);
    ages(&redis, 40);
    let next = guard(&redis.url()).settle(LONG).build().unwrap();
    live(&next).await;
}

#[tokio::test]
async fn a_process_that_was_cut_off_for_longer_than_a_minute_still_knows_its_filter() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).settle(BRIEF).build().unwrap();
    live(&guard).await;
    ages(&redis, 61);
    redis.run::<()>(&["SAVE"]);
    redis.restart();
    live(&guard).await;
    assert_eq!(guard.state().settling, None);
}

/// As if no process had looked at the filter for so many seconds.
fn ages(redis: &RedisServer, seconds: u64) {
    let (now, _): (u64, u64) = redis.run(&["TIME"]);
    let then = ((now - seconds) * 1_000).to_string();
    redis.run::<()>(&["HSET", META, "polled", &then, "stated", &then]);
}

#[tokio::test]
async fn every_process_follows_the_fleets_mode_and_takes_the_milder_of_it_and_its_own() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = || guard_over(&redis.url(), &table);
    let (first, second) = (builder().build().unwrap(), builder().build().unwrap());
    live(&first).await;
    live(&second).await;
    first.set_fleet_mode(Mode::Shadow).await.unwrap();
    has_mode(&first, Mode::Shadow).await;
    has_mode(&second, Mode::Shadow).await;
    second.set_mode(Mode::Off);
    assert_eq!(second.mode(), Mode::Off);
    second.set_mode(Mode::Enforce);
    assert_eq!(second.mode(), Mode::Shadow, "the milder counts");
    assert_eq!(second.state().fleet_mode, Mode::Shadow);
    // One that comes later goes by it, too.
    let third = builder().build().unwrap();
    has_mode(&third, Mode::Shadow).await;
    second.set_fleet_mode(Mode::Enforce).await.unwrap();
    for guard in [&first, &second, &third] {
        has_mode(guard, Mode::Enforce).await;
    }
}

/// Which is why the guide has fleets stand aside while other processes create records.
#[tokio::test]
async fn a_record_of_another_process_is_an_alarm_in_shadow_mode_and_none_in_off_mode() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let built = guard.state().live.unwrap().generation;
    guard.set_fleet_mode(Mode::Off).await.unwrap();
    has_mode(&guard, Mode::Off).await;
    for id in 5_000..5_100 {
        table.commit(id);
        assert_eq!(get(&guard, &table, id).await, 200);
    }
    assert_eq!(guard.stats().false_negatives, 0);
    assert_eq!(guard.state().live.unwrap().generation, built, "nothing was rebuilt");
    guard.set_fleet_mode(Mode::Shadow).await.unwrap();
    has_mode(&guard, Mode::Shadow).await;
    assert_eq!(get(&guard, &table, 5_000).await, 200);
    eventually("an alarm, and another filter", SOON, || async {
        let (alarms, state) = (guard.stats().false_negatives, guard.state());
        let rebuilt = state.live.as_ref().is_ok_and(|live| live.generation > built);
        if alarms == 1 && rebuilt { Ok(()) } else { Err(format!("{alarms}, {state:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_lost_the_mode_is_told_it_by_a_living_process() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = || guard_over(&redis.url(), &table);
    let first = builder().build().unwrap();
    live(&first).await;
    first.set_fleet_mode(Mode::Shadow).await.unwrap();
    has_mode(&first, Mode::Shadow).await;
    redis.run::<()>(&["FLUSHALL"]);
    let fresh = builder().build().unwrap();
    table.commit(4_711);
    throughout(Duration::from_secs(4), || async {
        assert_eq!(get(&fresh, &table, 4_711).await, 200);
        assert_eq!(first.mode(), Mode::Shadow);
    })
    .await;
    has_mode(&fresh, Mode::Shadow).await;
}

#[tokio::test]
async fn the_step_ends_settling_and_shadow_with_a_filter_that_has_what_others_created() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = || brief(guard_over(&redis.url(), &table)).settle(LONG);
    let (first, second) = (builder().build().unwrap(), builder().build().unwrap());
    settles(&first).await;
    first.set_fleet_mode(Mode::Shadow).await.unwrap();
    table.commit(4_711);
    // A transaction of a process that is gone by now commits while the step waits.
    let step = tokio::spawn({
        let first = first.clone();
        async move { first.enforce_everywhere().await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    table.commit(4_712);
    step.await.unwrap().unwrap();
    for guard in [&first, &second] {
        live(guard).await;
        assert_eq!((guard.mode(), guard.state().settling), (Mode::Enforce, None));
        for id in [4_711, 4_712] {
            assert_eq!(guard.check(&id).await, Ok(Verdict::Present));
        }
    }
}

#[tokio::test]
async fn a_mode_that_is_set_during_the_step_stays() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&guard).await;
    guard.set_fleet_mode(Mode::Shadow).await.unwrap();
    let step = guard.enforce_everywhere();
    let another = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        guard.set_fleet_mode(Mode::Off).await
    };
    let (step, another) = tokio::join!(step, another);
    another.unwrap();
    assert!(matches!(step, Err(FleetError::Overtaken)), "{step:?}");
    has_mode(&guard, Mode::Off).await;
}

#[tokio::test]
async fn a_step_that_ends_halfway_changes_nothing() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).settle(LONG).build().unwrap();
    settles(&guard).await;
    guard.set_fleet_mode(Mode::Shadow).await.unwrap();
    let halfway = tokio::time::timeout(Duration::from_millis(500), guard.enforce_everywhere());
    assert!(halfway.await.is_err(), "it waits for the longest transaction");
    throughout(Duration::from_secs(3), || async {
        assert_eq!(guard.state().fleet_mode, Mode::Shadow);
        assert!(guard.state().settling.is_some());
    })
    .await;
}

/// Its checks are still answered, and the mode of all processes may be another by now.
#[tokio::test]
async fn a_process_that_cannot_read_the_mode_any_more_refuses_nothing() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.run::<()>(&["ACL", "SETUSER", "default", "-eval", "-evalsha"]);
    eventually("nothing is refused", SOON, || async {
        let verdict = guard.check(&4_711).await.unwrap();
        if verdict == Verdict::Unknown(Doubt::Refused) {
            Ok(())
        } else {
            Err(format!("{verdict:?}"))
        }
    })
    .await;
    assert_eq!(guard.check(&7).await, Ok(Verdict::Present), "look-ups are answered");
    redis.run::<()>(&["ACL", "SETUSER", "default", "+eval", "+evalsha"]);
    live(&guard).await;
}
