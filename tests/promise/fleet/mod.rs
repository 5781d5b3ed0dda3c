//! A fleet that changes: other processes create records that this filter is not told of, or know another mode.

mod builds;
mod moves;
mod page;
mod steps;
mod table;

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Mode, Refusal, Schedule, Verdict};
use support::eventually;
use support::model::{Table, get, guard_over, live, says};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";
const META: &str = "bg:{users}:fleet";
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
async fn a_record_found_while_the_filter_settles_is_inserted_counted_and_no_alarm() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).settle(LONG).build().unwrap();
    settles(&guard).await;
    table.commit(4_711);
    let generation = guard.state().live.unwrap().generation;
    assert_eq!(get(&guard, &table, 4_711).await, 200);
    says(&guard, 4_711, Verdict::Present).await;
    let stats = guard.stats();
    assert_eq!((stats.found_unsettled, stats.false_negatives), (1, 0));
    assert_eq!(guard.state().live.unwrap().generation, generation, "nothing is distrusted for it");
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

/// Its checks are still answered, and the mode of all processes may be another by now.
#[tokio::test]
async fn a_process_that_cannot_read_the_mode_any_more_refuses_nothing() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.run::<()>(&["ACL", "SETUSER", "default", "-eval", "-evalsha"]);
    says(&guard, 4_711, Verdict::Unknown(Doubt::Refused(Refusal::OTHER))).await;
    assert_eq!(guard.check(&7).await, Ok(Verdict::Present), "look-ups are answered");
    redis.run::<()>(&["ACL", "SETUSER", "default", "+eval", "+evalsha"]);
    live(&guard).await;
}
