//! Those who come back late, are far away or fall silent in the midst of saying their inserts again.

use std::time::Duration;

use bloom_guard::{BloomGuard, RebuildStep, Verdict};
use tokio::time::Instant;

use super::{BACK, LOG, META, OPEN};
use super::{generation, never_refused, rebuilder_and_creator, rebuilt};
use support::far::Far;
use support::model::{Table, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use support::{eventually, throughout};

/// The creator is a second late to find Redis again; the rebuild is through by then.
#[tokio::test]
async fn a_rebuild_waits_for_those_who_come_back_a_little_later() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let (rebuilder, creator) = rebuilder_and_creator(&redis.url(), &route.url(), &table).await;
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    let run_known = eventually("the rebuilder enrols again", BACK, || async {
        let there: i64 = redis.run(&["EXISTS", META]);
        if there == 1 { Ok(Instant::now()) } else { Err("no".to_owned()) }
    })
    .await;
    eventually("a second passes", BACK, || async {
        let passed = run_known.elapsed();
        if passed > Duration::from_secs(1) { Ok(()) } else { Err(format!("{passed:?}")) }
    })
    .await;
    route.turn(Traffic::To(redis.port()));
    // It commits as soon as the scan has passed, long before the filter is trusted.
    table.commit(OPEN);
    throughout(Duration::from_secs(5), || async {
        assert_eq!(get_looked_up(&rebuilder, &table, OPEN).await, 200, "acknowledged, and refused");
        assert_eq!(get_looked_up(&creator, &table, OPEN).await, 200, "acknowledged, and refused");
    })
    .await;
    rebuilt(&rebuilder, old).await;
}

/// A process that is away for long does not refuse its own ids by a filter that was built meanwhile.
#[tokio::test]
async fn a_process_trusts_no_filter_before_its_own_inserts_are_in() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let (rebuilder, creator) = rebuilder_and_creator(&redis.url(), &route.url(), &table).await;
    creator.insert(&OPEN).await.unwrap();
    let old = generation(&rebuilder);
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    rebuilt(&rebuilder, old).await;
    table.commit(OPEN);
    route.turn(Traffic::To(redis.port()));
    eventually("the creator trusts the new filter", BACK, || async {
        let first = creator.check(&OPEN).await.unwrap();
        assert_eq!(
            get_looked_up(&creator, &table, OPEN).await,
            200,
            "acknowledged, and refused: {first:?}, then {:?} {:#?}",
            creator.check(&OPEN).await,
            creator.state()
        );
        match creator.check(&u64::MAX).await.unwrap() {
            Verdict::Absent(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    never_refused([&rebuilder, &creator], &table).await;
}

/// A process that makes inserts from far away, one that rebuilds, and their table; the first has an
/// insert whose transaction is open, after so many others.
async fn far_away(redis: &RedisServer, others: u64) -> (Far, BloomGuard, BloomGuard, Table) {
    let far = Far::to(redis.port(), Duration::from_millis(20)).await;
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build().unwrap();
    let deadline = Duration::from_millis(500);
    let creator = guard(&far.url()).check_deadline(deadline).build().unwrap();
    live(&rebuilder).await;
    live(&creator).await;
    creator.insert_many(10_000..10_000 + others).await.unwrap();
    creator.insert(&OPEN).await.unwrap();
    (far, creator, rebuilder, table)
}

#[tokio::test]
async fn who_falls_silent_while_he_says_his_inserts_again_is_waited_for() {
    let redis = RedisServer::start();
    let (far, _creator, rebuilder, table) = far_away(&redis, 12_500).await;
    redis.run::<()>(&["FLUSHALL"]);
    eventually("the replay is well under way", Duration::from_secs(20), || async {
        let said: i64 = redis.try_run(&["XLEN", LOG]).map_err(|error| error.to_string())?;
        if said > 75 { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
    assert_eq!(rebuilder.rebuild_status().step, RebuildStep::Swap, "the scan is over");
    table.commit(OPEN);
    far.be_silent(true);
    let (silent, mut said) = (Instant::now(), false);
    throughout(Duration::from_secs(6), || {
        if !said && silent.elapsed() > Duration::from_millis(1500) {
            far.be_silent(false);
            said = true;
        }
        let (rebuilder, table) = (&rebuilder, &table);
        async move {
            assert_eq!(
                get_looked_up(rebuilder, table, OPEN).await,
                200,
                "acknowledged, and refused"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn time_in_which_redis_stood_still_is_no_time_to_say_inserts_again() {
    let redis = RedisServer::start();
    let (_far, _creator, rebuilder, table) = far_away(&redis, 5_000).await;
    redis.run::<i64>(&["DEL", LOG, META]);
    let again = rebuilder.clone();
    let rebuilding = tokio::spawn(async move { again.rebuild_now().await });
    eventually("the swap waits", Duration::from_secs(5), || async {
        let step = rebuilder.rebuild_status().step;
        if step.as_str() == "swap" { Ok(()) } else { Err(step.to_string()) }
    })
    .await;
    redis.pause();
    table.commit(OPEN);
    let (paused, mut over) = (Instant::now(), false);
    throughout(Duration::from_secs(8), || {
        if !over && paused.elapsed() > Duration::from_millis(2200) {
            redis.resume();
            over = true;
        }
        let (rebuilder, table) = (&rebuilder, &table);
        async move {
            assert_eq!(
                get_looked_up(rebuilder, table, OPEN).await,
                200,
                "acknowledged, and refused"
            );
        }
    })
    .await;
    rebuilding.await.unwrap().ok();
}
