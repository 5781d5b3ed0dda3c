//! Nulls in Redis: remembered once, shared, and never in a record's way.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{BloomGuard, Proof, Removed, Verdict};
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{Table, brief, get, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

/// An id whose transaction is open.
const OPEN: u64 = 4_711;
const NULL: Verdict = Verdict::Absent(Proof::Null);

/// A filter over 1,000 ids at a rate that leaves plenty of false positives; returns one of them.
async fn false_positive(redis: &RedisServer, table: &Table) -> (BloomGuard, u64) {
    let guard = guard_over(&redis.url(), table)
        .capacity(1_000, 0.3)
        .negative_ttl(Duration::from_secs(2))
        // What one was told holds for all, also for who checks by hand.
        .shared_absence(true)
        .build()
        .unwrap();
    live_at_a_high_rate(&guard).await;
    for id in 10_000.. {
        if guard.check(&id).await.unwrap() == Verdict::Present {
            return (guard, id);
        }
    }
    unreachable!()
}

async fn live_at_a_high_rate(guard: &BloomGuard) {
    eventually("the guard is live", Duration::from_secs(10), || async {
        match guard.check(&1).await.unwrap() {
            Verdict::Unknown(doubt) => Err(doubt.to_string()),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_null_is_stored_once_per_missing_id_and_ttl() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, id) = false_positive(&redis, &table).await;
    let other = support::model::guard(&redis.url()).build().unwrap();
    live_at_a_high_rate(&other).await;

    for _ in 0..50 {
        assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
        assert_eq!(get(&other, &table, id).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(table.lookups(), 1, "the database was asked once, for both instances");
    assert_eq!(guard.check(&id).await.unwrap(), NULL);

    eventually("the null lapses", Duration::from_secs(5), || async {
        match guard.check(&id).await.unwrap() {
            Verdict::Present => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    assert_eq!(table.lookups(), 2, "once more after the TTL");
}

#[tokio::test]
async fn a_null_is_gone_once_an_insert_elsewhere_has_returned() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, id) = false_positive(&redis, &table).await;
    let other = support::model::guard(&redis.url()).build().unwrap();
    live_at_a_high_rate(&other).await;
    assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    assert_eq!(other.check(&id).await.unwrap(), NULL);

    other.insert(&id).await.unwrap();
    table.commit(id);
    assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    assert_eq!(get(&other, &table, id).await, StatusCode::OK);
}

/// Where a create may fall in the life of a request that misses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    BeforeCheck,
    BeforeRead,
    AfterRead,
    AfterAnswer,
}

const STEPS: [Step; 4] = [Step::BeforeCheck, Step::BeforeRead, Step::AfterRead, Step::AfterAnswer];

#[tokio::test]
async fn a_create_that_races_the_404_is_never_hidden() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, _) = false_positive(&redis, &table).await;
    let other = support::model::guard(&redis.url()).build().unwrap();
    live_at_a_high_rate(&other).await;

    // Every way in which insert and commit, in this order, can fall between the steps.
    let mut candidates = 20_000_u64..;
    for insert in STEPS {
        for commit in STEPS.into_iter().filter(|commit| *commit as u8 >= insert as u8) {
            let id = loop {
                let id = candidates.next().unwrap();
                if guard.check(&id).await.unwrap() == Verdict::Present {
                    break id;
                }
            };
            race(&guard, &other, &table, id, insert, commit).await;
            for guard in [&guard, &other] {
                let found = get(guard, &table, id).await;
                assert_eq!(found, StatusCode::OK, "insert {insert:?}, commit {commit:?}");
            }
        }
    }
}

/// Sends one request through `guard` and creates its record through `creator` meanwhile.
async fn race(
    guard: &BloomGuard,
    creator: &BloomGuard,
    table: &Table,
    id: u64,
    insert: Step,
    commit: Step,
) {
    let create = |at: Step| async move {
        if insert == at {
            creator.insert(&id).await.unwrap();
        }
        if commit == at {
            table.commit(id);
        }
    };
    create(Step::BeforeCheck).await;
    // The handler stops before it reads and before it answers.
    let (at_step, mut steps) = mpsc::channel(1);
    let (resume, resumed) = async_channel();
    let table_read = table.clone();
    let service = guard.layer(tower::service_fn(move |_: Request<String>| {
        let (at_step, resumed, table) = (at_step.clone(), resumed.clone(), table_read.clone());
        async move {
            at_step.send(()).await.unwrap();
            resumed.lock().await.recv().await.unwrap();
            let found = table.snapshot().contains(&id);
            at_step.send(()).await.unwrap();
            resumed.lock().await.recv().await.unwrap();
            let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
        }
    }));
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    let request = tokio::spawn(service.oneshot(request));
    steps.recv().await.expect("the handler was called");
    create(Step::BeforeRead).await;
    resume.send(()).await.unwrap();
    steps.recv().await.expect("the handler has read");
    create(Step::AfterRead).await;
    resume.send(()).await.unwrap();
    request.await.unwrap().unwrap();
    create(Step::AfterAnswer).await;
}

type Resumed = std::sync::Arc<tokio::sync::Mutex<mpsc::Receiver<()>>>;

fn async_channel() -> (mpsc::Sender<()>, Resumed) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, std::sync::Arc::new(tokio::sync::Mutex::new(receiver)))
}

#[tokio::test]
async fn a_removed_id_is_refused_until_it_is_created_anew() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let other = support::model::guard(&redis.url()).build().unwrap();
    live(&other).await;
    redis.age();

    table.delete(7);
    guard.remove(&7).await.unwrap();
    assert_eq!(get(&other, &table, 7).await, StatusCode::NOT_FOUND);
    assert_eq!(table.lookups(), 0, "refused without asking the database");

    other.insert(&7).await.unwrap();
    table.commit(7);
    // A remove that comes late does not hide the new record.
    guard.remove(&7).await.unwrap();
    assert_eq!(get(&guard, &table, 7).await, StatusCode::OK);
}

/// Its marks went with Redis's data. The record was deleted, and created anew by a process that is gone.
#[tokio::test]
async fn a_removal_that_is_told_after_redis_lost_its_marks_hides_no_record() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let worker = guard_over(&redis.url(), &table).build().unwrap();
    let creator = guard(&redis.url()).build().unwrap();
    live(&worker).await;
    live(&creator).await;
    redis.age();
    table.delete(7);
    creator.insert(&7).await.unwrap();
    table.commit(7);
    worker.rebuild_now().await.unwrap();
    assert_eq!(worker.remove(&7).await.unwrap(), Removed::Withheld, "as long as it is marked");
    drop(creator);
    redis.restart();
    live(&worker).await;
    assert_eq!(worker.remove(&7).await.unwrap(), Removed::Withheld, "now that nobody knows");
    assert_eq!(get(&worker, &table, 7).await, StatusCode::OK);
}

#[tokio::test]
async fn removals_are_remembered_once_no_mark_can_be_missing() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&guard).await;
    table.delete(7);
    eventually("a removal is remembered", Duration::from_secs(10), || async {
        match guard.remove(&7).await.unwrap() {
            Removed::Remembered => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(guard.check(&7).await.unwrap(), NULL);
}

/// The handler has read that the record is missing when its removal is told.
#[tokio::test]
async fn a_404_under_way_does_not_cut_a_removal_short() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.age();
    table.delete(7);
    let remover = guard.clone();
    let service = guard.layer(tower::service_fn(move |_: Request<String>| {
        let remover = remover.clone();
        async move {
            assert_eq!(remover.remove(&7).await.unwrap(), Removed::Remembered);
            Ok::<_, Infallible>(Response::builder().status(404).body(String::new()).unwrap())
        }
    }));
    let request = Request::get("/users/7").body(String::new()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), StatusCode::NOT_FOUND);
    let null = redis.keys().into_iter().find(|key| key.contains(":null:")).expect("a null");
    let left = redis.run::<i64>(&["TTL", &null]);
    assert!(left > 3_600, "a day was asked for, {left} s are left");
    assert_eq!(redis.run::<String>(&["GETRANGE", &null, "0", "0"]), "e", "for everyone");
}

#[tokio::test]
async fn an_old_generations_null_is_ignored() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.age();
    table.delete(7);
    guard.remove(&7).await.unwrap();
    assert_eq!(guard.check(&7).await.unwrap(), NULL);
    // The row comes back behind the guard's back; the next rebuild finds it.
    table.commit(7);
    guard.rebuild_now().await.unwrap();
    assert_eq!(guard.check(&7).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn a_null_written_before_its_filter_was_lost_is_ignored() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.age();
    assert_eq!(guard.remove(&7).await.unwrap(), Removed::Remembered);
    redis.run::<i64>(&["DEL", "bg:{users}:bits"]);
    let newcomer = support::model::guard(&redis.url()).build().unwrap();
    let verdict = eventually("connected", Duration::from_secs(5), || async {
        match newcomer.check(&7).await.unwrap() {
            Verdict::Unknown(bloom_guard::Doubt::Disconnected) => Err("disconnected".to_owned()),
            other => Ok(other),
        }
    })
    .await;
    assert_eq!(verdict, Verdict::Unknown(bloom_guard::Doubt::NoFilter));
    assert_eq!(get(&newcomer, &table, 7).await, StatusCode::OK);
}

#[tokio::test]
async fn a_slow_requests_404_is_not_remembered() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    let guard = guard(&redis.url()).handler_time(Duration::from_millis(100)).build().unwrap();
    live(&guard).await;
    let begun = tokio::time::Instant::now();
    let service = guard.layer(tower::service_fn(|_: Request<String>| async {
        // A slow database.
        support::throughout(Duration::from_millis(150), || async {}).await;
        Ok::<_, Infallible>(Response::builder().status(404).body(String::new()).unwrap())
    }));
    let request = Request::get("/users/7").body(String::new()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), StatusCode::NOT_FOUND);
    assert!(begun.elapsed() >= Duration::from_millis(150));
    assert_eq!(guard.check(&7).await.unwrap(), Verdict::Present);
    assert_eq!(guard.stats().nulls_withheld, 1);
}

/// Asks for a missing id and creates it between the handler's answer and the remembering.
async fn created_meanwhile(guard: &BloomGuard, table: &Table, id: u64) {
    let (creator, table_read, commit) = (guard.clone(), table.clone(), table.clone());
    let service = guard.layer(tower::service_fn(move |_: Request<String>| {
        let (creator, table, commit) = (creator.clone(), table_read.clone(), commit.clone());
        async move {
            let found = table.snapshot().contains(&id);
            creator.insert(&id).await.unwrap();
            commit.commit(id);
            let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
        }
    }));
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_eviction_of_everything_volatile_hides_no_created_record() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, id) = false_positive(&redis, &table).await;
    created_meanwhile(&guard, &table, id).await;
    // Memory pressure takes whatever has a TTL, and the record's next request races again.
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-random"]);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("all that can be evicted is", Duration::from_secs(5), || async {
        let _: redis::RedisResult<()> =
            redis::cmd("SET").arg("x").arg("y").exec(&mut redis.connection());
        let volatile: Vec<String> =
            redis.keys().into_iter().filter(|key| key.contains(":null:")).collect();
        if volatile.is_empty() { Ok(()) } else { Err(format!("{volatile:?}")) }
    })
    .await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.age();
    guard.remove(&id).await.unwrap();
    assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
}

#[tokio::test]
async fn lost_marks_stop_nulls_instead_of_hiding_a_record() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let (guard, id) = false_positive(&redis, &table).await;
    guard.insert(&id).await.unwrap();
    redis.run::<i64>(&["DEL", "bg:{users}:marks"]);
    // The record's transaction is still open: the handler does not see it yet.
    assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
    table.commit(id);
    assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
}

#[tokio::test]
async fn more_marks_than_fit_stop_nulls_instead_of_hiding_a_record() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    let guard = guard(&redis.url()).journal_entries(1_000).build().unwrap();
    live(&guard).await;
    guard.insert(&5_000).await.unwrap();
    guard.insert_many(10_000..11_500_u64).await.unwrap();
    let marks: i64 = redis.run(&["ZCARD", "bg:{users}:marks"]);
    assert!(marks <= 1_032, "{marks} marks");
    // The last one found no room for its mark. Both transactions are still open.
    for id in [5_000, 11_499] {
        assert_eq!(get(&guard, &table, id).await, StatusCode::NOT_FOUND);
        table.commit(id);
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK);
    }
    assert_eq!(guard.stats().nulls_stored, 0);
}

#[tokio::test]
async fn an_import_stops_nulls_instead_of_filling_redis_with_marks() {
    const IMPORT: std::ops::Range<u64> = 10_000..110_500;
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    guard.insert_many(IMPORT).await.unwrap();
    let marks: i64 = redis.run(&["ZCARD", "bg:{users}:marks"]);
    assert!((100_000..100_128).contains(&marks), "{marks} marks");
    // The import's transaction is still open.
    let last = IMPORT.end - 1;
    assert_eq!(get(&guard, &table, last).await, StatusCode::NOT_FOUND);
    table.commit(last);
    assert_eq!(get(&guard, &table, last).await, StatusCode::OK);
    assert_eq!(guard.stats().nulls_stored, 0);
    // There is room for single inserts.
    guard.insert(&5_000).await.unwrap();
    assert_eq!(redis.run::<i64>(&["ZCARD", "bg:{users}:marks"]), marks + 1);
}

/// An id is asked for before its commit, and the next who asks hangs up as his 404 is being remembered.
#[tokio::test]
async fn who_hangs_up_while_his_404_is_remembered_holds_nobody_up() {
    let redis = RedisServer::start();
    let route = Arc::new(Route::to(redis.port()).await);
    let table = Table::with(0..1_000);
    let rebuilder = guard_over(&redis.url(), &table).build().unwrap();
    let creator = guard(&redis.url()).build().unwrap();
    let deadline = Duration::from_secs(2);
    let reader = guard(&route.url()).check_deadline(deadline).build().unwrap();
    live(&rebuilder).await;
    live(&reader).await;
    creator.insert(&OPEN).await.unwrap();
    assert_eq!(get(&reader, &table, OPEN).await, 404);

    let silent = Arc::clone(&route);
    let service = reader.layer(tower::service_fn(move |_: Request<String>| {
        // From here on: the answer to what is to be remembered.
        silent.turn(Traffic::Silent);
        async {
            let response = Response::builder().status(StatusCode::NOT_FOUND).body(String::new());
            Ok::<_, Infallible>(response.unwrap())
        }
    }));
    let request = Request::get(format!("/users/{OPEN}")).body(String::new()).unwrap();
    let hung_up = timeout(Duration::from_millis(50), service.oneshot(request)).await;
    assert!(hung_up.is_err(), "{hung_up:?}");
    route.turn(Traffic::To(redis.port()));
    table.commit(OPEN);
    eventually("the record is shown", Duration::from_secs(5), || async {
        match get(&reader, &table, OPEN).await {
            StatusCode::OK => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
}

/// Deployed with the wrong tenant, or an empty schema: nothing that it answers was ever found there.
#[tokio::test]
async fn a_newcomer_with_a_broken_backend_does_not_speak_for_those_who_saw_the_records() {
    let redis = RedisServer::start();
    let (table, nothing) = (Table::with(0..1_000), Table::default());
    let sound = guard_over(&redis.url(), &table).build().unwrap();
    let broken = guard(&redis.url()).build().unwrap();
    live(&sound).await;
    live(&broken).await;
    for id in 0..50 {
        assert_eq!(get(&sound, &table, id).await, StatusCode::OK);
        assert_eq!(get(&broken, &nothing, id).await, StatusCode::NOT_FOUND);
        assert_eq!(get(&sound, &table, id).await, StatusCode::OK, "shown a moment ago");
    }
    assert_eq!(broken.stats().nulls_stored, 50);

    // Where a record is gone indeed, one look tells, and then the 404s of others hold.
    assert_eq!(get(&sound, &table, 70).await, StatusCode::OK);
    table.delete(70);
    assert_eq!(get(&broken, &nothing, 70).await, StatusCode::NOT_FOUND);
    let lookups = table.lookups();
    for _ in 0..10 {
        assert_eq!(get(&sound, &table, 70).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(table.lookups(), lookups + 1);
}
