//! One instance rebuilds at a time, and one that was overtaken swaps nothing.

use std::time::Duration;

use bloom_guard::{RebuildError, StoreError, Verdict};

use super::{LOCK, held, milliseconds};
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

#[tokio::test]
async fn one_instance_rebuilds_at_a_time() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (first, gate) = held(&redis, &table, 0, &[]);
    eventually("the first has the lease", Duration::from_secs(5), || async {
        if redis.run::<i64>(&["EXISTS", LOCK]) == 1 { Ok(()) } else { Err("no".into()) }
    })
    .await;
    let other = guard_over(&redis.url(), &table).build().unwrap();
    eventually("the other is refused", Duration::from_secs(5), || async {
        match other.rebuild_now().await {
            Err(error) if matches!(*error, RebuildError::Busy) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    gate.add_permits(1);
    live(&first).await;
    eventually("the lease is given back", Duration::from_secs(5), || async {
        if redis.run::<i64>(&["EXISTS", LOCK]) == 0 { Ok(()) } else { Err("no".into()) }
    })
    .await;
}

#[tokio::test]
async fn an_older_rebuild_never_replaces_a_newer_filter() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (zombie, gate) = held(&redis, &table, 1, &[]);
    live(&zombie).await;
    let rebuild = tokio::spawn({
        let zombie = zombie.clone();
        async move { zombie.rebuild_now().await }
    });
    eventually("the zombie scans", Duration::from_secs(5), || async {
        let step = zombie.rebuild_status().step;
        if step.as_str() == "scan" { Ok(()) } else { Err(step.to_string()) }
    })
    .await;
    // Its lease is lost to another instance, which rebuilds with rows the zombie has not seen.
    redis.run::<i64>(&["DEL", LOCK]);
    table.commit(5_555);
    let other = guard_over(&redis.url(), &table).build().unwrap();
    eventually("the other rebuilds", Duration::from_secs(5), || async {
        other.rebuild_now().await.map_err(|error| format!("{error:?}"))
    })
    .await;
    let newer = other.state().live.unwrap().generation;
    gate.add_permits(1);
    let error = rebuild.await.unwrap().unwrap_err();
    assert!(matches!(&*error, RebuildError::Store(StoreError::Fenced { .. })), "{error:?}");
    live(&other).await;
    assert_eq!(other.state().live.unwrap().generation, newer);
    assert_eq!(other.check(&5_555).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn a_rebuild_longer_than_its_lease_keeps_it() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (slow, gate) = held(&redis, &table, 0, &[]);
    let rebuild = tokio::spawn({
        let slow = slow.clone();
        async move { slow.rebuild_now().await }
    });
    let holder = || redis.run::<Option<String>>(&["GET", LOCK]);
    let ours = eventually("the lease", Duration::from_secs(5), || async {
        holder().ok_or_else(|| "nobody's".to_owned())
    })
    .await;
    let other = guard_over(&redis.url(), &table).build().unwrap();
    // Half as long again as the lease lasts, and past three renewals.
    let over = milliseconds(&redis) + 15_000;
    while milliseconds(&redis) < over {
        assert_eq!(holder().as_ref(), Some(&ours), "the lease lapsed, or went to another");
        let busy = other.rebuild_now().await;
        assert!(busy.is_err(), "two rebuilds at once");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gate.add_permits(100);
    rebuild.await.unwrap().unwrap();
    eventually("the lease is given back", Duration::from_secs(5), || async {
        holder().map_or(Ok(()), Err)
    })
    .await;
}
