//! An insert that Redis acknowledged and then lost is not refused when its transaction commits, for as
//! long as the process that made it lives.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Verdict};
use futures_util::future::{BoxFuture, join_all};
use support::model::{Table, get_looked_up, guard, guard_over, inserted, live, rebuilt};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use support::{eventually, throughout};

const META: &str = "bg:{users}:fleet";
/// The id whose transaction is open while Redis loses it.
const OPEN: u64 = 4_711;
const SOON: Duration = Duration::from_secs(20);

/// Neither of the guards refuses the id once it is committed.
async fn never_refused(guards: [&BloomGuard; 2], table: &Table) {
    table.commit(OPEN);
    throughout(Duration::from_secs(2), || async {
        for guard in guards {
            assert_eq!(get_looked_up(guard, table, OPEN).await, 200, "acknowledged, and refused");
        }
    })
    .await;
}

/// A server, another one that may take its place, and the way to whichever it is.
struct Site {
    redis: RedisServer,
    replica: RedisServer,
    route: Route,
}

/// What is done before the insert, and how Redis loses it after.
type Loss = (fn(&mut Site) -> BoxFuture<'_, ()>, fn(&mut Site));

fn nothing(_: &mut Site) -> BoxFuture<'_, ()> {
    Box::pin(async {})
}

fn save(site: &mut Site) -> BoxFuture<'_, ()> {
    site.redis.run::<()>(&["SAVE"]);
    nothing(site)
}

/// The replica follows until its link stalls.
fn replicate(site: &mut Site) -> BoxFuture<'_, ()> {
    Box::pin(async {
        let primary = site.redis.port().to_string();
        site.replica.run::<()>(&["REPLICAOF", "127.0.0.1", &primary]);
        eventually("the replica has the filter", SOON, || async {
            let has = site.replica.run::<i64>(&["EXISTS", "bg:{users}:bits", META]);
            if has == 2 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        site.replica.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    })
}

fn fail_over(site: &mut Site) {
    site.route.lead_to(site.replica.port());
    site.redis.kill();
}

#[tokio::test]
async fn an_insert_that_redis_lost_is_not_refused() {
    let losses: [Loss; 3] = [
        (save, |site| site.redis.restart()),
        (nothing, |site| site.redis.run(&["FLUSHALL"])),
        (replicate, fail_over),
    ];
    join_all(losses.map(|(before, lose)| async move {
        let redis = RedisServer::with(&["--save", "3600 1000000"]);
        let route = Route::to(redis.port()).await;
        let mut site = Site { redis, replica: RedisServer::start(), route };
        let table = Table::with(0..1_000);
        let rebuilder = guard_over(&site.route.url(), &table).build().unwrap();
        let creator = guard(&site.route.url()).build().unwrap();
        live(&rebuilder).await;
        before(&mut site).await;
        live(&creator).await;
        inserted(&creator, [OPEN]).await;
        live(&rebuilder).await;
        let old = eventually("it is live", SOON, || async {
            let live = rebuilder.state().live.map_err(|doubt| doubt.to_string())?;
            Ok(live.generation)
        })
        .await;
        lose(&mut site);
        rebuilt(&rebuilder, old).await;
        rebuilt(&creator, old).await;
        never_refused([&rebuilder, &creator], &table).await;
    }))
    .await;
}

/// A newcomer has drawn another secret key before the creator came back: its digests are of no use.
#[tokio::test]
async fn inserts_under_a_lost_secret_key_are_not_vouched_for() {
    let redis = RedisServer::start();
    let route = Route::to(redis.port()).await;
    let table = Table::with(0..1_000);
    let first = guard_over(&redis.url(), &table).build().unwrap();
    let creator = guard(&route.url()).build().unwrap();
    live(&first).await;
    live(&creator).await;
    drop(first);
    creator.insert(&OPEN).await.unwrap();
    route.turn(Traffic::Cut);
    redis.run::<()>(&["FLUSHALL"]);
    let newcomer = guard_over(&redis.url(), &table).build().unwrap();
    live(&newcomer).await;
    route.turn(Traffic::Fair);
    eventually("the newcomer's filter is not trusted any more", SOON, || async {
        match newcomer.check(&OPEN).await.unwrap() {
            Verdict::Unknown(Doubt::Damaged | Doubt::NoFilter) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    never_refused([&newcomer, &creator], &table).await;
}
