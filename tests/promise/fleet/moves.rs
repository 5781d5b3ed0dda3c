//! A fleet that moves to another filter by two guards, one inside the other: beside the page's steps, which `table.rs` takes.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bloom_guard::extract::QueryList;
use bloom_guard::{FoundIds, Verdicts};
use http::{Request, Response, StatusCode};
use support::model::brief;
use tower::util::MapRequest;
use tower::{Layer, ServiceExt};

use super::builds::{Harm, Process, RECORDS, both_ways};
use super::table::{CREATED, KEY, New, fleet};
use super::*;

/// Each record that there is may exist, for all that a guard says.
async fn refuses_none(guard: &BloomGuard, table: &Table) {
    for id in table.snapshot() {
        let verdict = guard.check(&id).await.unwrap();
        assert!(!matches!(verdict, Verdict::Absent(_)), "{id} is refused");
    }
}

/// Takes the page's steps up to this one, and those back.
async fn goes_back_from(step: u32) {
    let (redis, table) = (RedisServer::start(), Table::with(0..1_000));
    let new = New { redis: &redis, name: "users-2", key: KEY, shards: 1 };
    let (before, outer) = (fleet(&redis, &table), fleet(&redis, &table));
    let inner = new.build(&table).settle(LONG).build().unwrap();
    live(&before).await;
    live(&outer).await;
    settles(&inner).await;
    let moving = Process::two_guards(&outer, &inner, &table);
    let mut harm = both_ways(&Process::guarded(&before, &table), &moving, CREATED).await;
    drop(before);
    if step >= 2 {
        inner.enforce_everywhere().await.unwrap();
    }
    if step >= 3 {
        outer.set_fleet_mode(Mode::Off).await.unwrap();
    }
    if step >= 4 {
        let after = new.build(&table).build().unwrap();
        live(&after).await;
        let after = Process::guarded(&after, &table);
        harm += both_ways(&moving, &after, CREATED + 2 * RECORDS).await;
    }
    // And back.
    if step >= 3 {
        outer.enforce_everywhere().await.unwrap();
        moving.is_shielded().await;
    }
    if step >= 2 {
        inner.set_fleet_mode(Mode::Off).await.unwrap();
        moving.is_shielded().await;
    }
    let again = fleet(&redis, &table);
    live(&again).await;
    let before = Process::guarded(&again, &table);
    harm += both_ways(&before, &moving, CREATED + 4 * RECORDS).await;
    before.is_shielded().await;
    refuses_none(&again, &table).await;
    assert_eq!(harm, Harm::default(), "back from step {step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_from_any_step_of_a_move_refuses_no_record() {
    tokio::join!(goes_back_from(1), goes_back_from(2), goes_back_from(3), goes_back_from(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_redis_that_is_gone_for_good_has_no_record_refused() {
    let (mut old, redis, table) =
        (RedisServer::start(), RedisServer::start(), Table::with(0..1_000));
    let new = New { redis: &redis, name: "users-2", key: KEY, shards: 1 };
    let (before, outer) = (fleet(&old, &table), fleet(&old, &table));
    let inner = new.build(&table).settle(LONG).build().unwrap();
    live(&before).await;
    live(&outer).await;
    settles(&inner).await;
    let moving = Process::two_guards(&outer, &inner, &table);
    let harm = both_ways(&Process::guarded(&before, &table), &moving, CREATED).await;
    assert_eq!(harm, Harm::default());
    old.kill();
    assert!(moving.create(50_000).await.is_err(), "it must not be committed");
    outer.set_mode(Mode::Off);
    let after = new.build(&table).build().unwrap();
    after.ready().await;
    let after = Process::guarded(&after, &table);
    for id in 60_000..60_000 + RECORDS {
        after.create(id).await.unwrap();
        for process in [&moving, &after] {
            assert_eq!(process.ask(id).await, StatusCode::OK);
        }
    }
    for id in table.snapshot() {
        assert_ne!(moving.ask(id).await, StatusCode::NOT_FOUND, "{id}");
    }
    drop((before, outer, inner, moving));
    let last = new.build(&table).build().unwrap();
    last.enforce_everywhere().await.unwrap();
    after.is_shielded().await;
    refuses_none(&last, &table).await;
}

/// What the outer guard knows of a list, on its way to the handler.
#[derive(Clone)]
struct OfOuter(Verdicts);

#[tokio::test(flavor = "multi_thread")]
async fn in_a_move_the_handler_reads_no_id_of_a_list_that_either_guard_calls_absent() {
    let (redis, table) = (RedisServer::start(), Table::with(0..1_000));
    let build = |name: &str| {
        let ids = QueryList::<u64>::separated("ids", ',');
        let builder = BloomGuard::builder(name, ids).redis(&redis.url()).settle(Duration::ZERO);
        let builder = brief(builder).rebuild(Schedule::manual(), table.clone()).copy_limit(0);
        builder.check_deadline(Duration::from_secs(1)).audits_per_second(0)
    };
    let (before, old) = (build("users").build().unwrap(), build("users").build().unwrap());
    let new = build("users-2").settle(LONG).build().unwrap();
    live(&old).await;
    settles(&new).await;
    // The new guard is not told of it.
    before.insert(&5_000).await.unwrap();
    table.commit(5_000);
    let read = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (read, table) = (Arc::clone(&read), table.clone());
        tower::service_fn(move |request: Request<String>| {
            let list = request.uri().query().and_then(|query| query.strip_prefix("ids="));
            let mut ids: Vec<u64> =
                list.unwrap_or_default().split(',').flat_map(str::parse).collect();
            let of_outer = request.extensions().get::<OfOuter>().map(|OfOuter(verdicts)| verdicts);
            for verdicts in request.extensions().get::<Verdicts>().into_iter().chain(of_outer) {
                verdicts.drop_absent(&mut ids);
            }
            read.lock().unwrap().clone_from(&ids);
            ids.retain(|id| table.look_up(*id));
            let mut response = Response::new(String::new());
            response.extensions_mut().insert(FoundIds::new(ids));
            async { Ok::<_, Infallible>(response) }
        })
    };
    let apart = |mut request: Request<String>| {
        if let Some(verdicts) = request.extensions_mut().remove::<Verdicts>() {
            request.extensions_mut().insert(OfOuter(verdicts));
        }
        request
    };
    let service = old.layer(MapRequest::new(new.layer(handler), apart));
    let listed: Vec<String> =
        [7, 8, 5_000].into_iter().chain(90_000..90_090).map(|id| id.to_string()).collect();
    let target = format!("/users?ids={}", listed.join(","));
    let asks = async |step: &str| {
        let request = Request::get(&target).body(String::new()).unwrap();
        let status = service.clone().oneshot(request).await.unwrap().status();
        assert_eq!(status, StatusCode::OK, "{step}");
        let read = std::mem::take(&mut *read.lock().unwrap());
        assert!(read.starts_with(&[7, 8, 5_000]), "{step}: {read:?}");
        assert!(read.len() <= 5, "{step}: {read:?}");
    };
    asks("the new one settles").await;
    new.enforce_everywhere().await.unwrap();
    asks("both refuse").await;
    old.set_fleet_mode(Mode::Off).await.unwrap();
    asks("the old one stands aside").await;
    assert_eq!((old.stats().false_negatives, new.stats().false_negatives), (0, 0));
}
