//! A filter of `RedisBloom`, on the real module: what exists passes, whatever becomes of the key.

mod schedules;

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

use bloom_guard::{BloomGuard, Doubt, ForeignFilter, StoreError, Verdict};
use redis::Pipeline;
use support::eventually;
use support::model::foreign_guard;
use support::redis_server::RedisServer;

use crate::guarded::{
    KNOWN, SOON, STRANGERS, connected, refused, refuses, refuses_strangers, trust, trusting,
};
use crate::redisbloom_module::module;

const KEY: &str = "users";
const IDS: u64 = 1_000;

/// Starts a server with the module. Without the package registry there is none.
pub(crate) fn server() -> RedisServer {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/redisbloom.so");
    let found = {
        let _fetches = ONE_AT_A_TIME.lock();
        module(kept)
    };
    let module = found.unwrap_or_else(|why| panic!("RedisBloom cannot be had from PyPI: {why}"));
    RedisServer::with(&["--loadmodule", module.to_str().expect("a path in UTF-8")])
}

fn filter() -> ForeignFilter {
    ForeignFilter::redisbloom(KEY)
}

/// Inserts ids as any client does.
pub(crate) fn write(server: &RedisServer, key: &str, ids: impl IntoIterator<Item = u64>) {
    let ids: Vec<u64> = ids.into_iter().collect();
    let mut pipeline = Pipeline::new();
    for ids in ids.chunks(1_000) {
        pipeline.cmd("BF.MADD").arg(key).arg(ids).ignore();
    }
    pipeline.exec(&mut server.connection()).expect("a filter");
}

fn reserve(server: &RedisServer, key: &str, capacity: u64, scaling: &[&str]) {
    let words = ["BF.RESERVE", key, "0.01", &capacity.to_string()];
    server.run::<()>(&[&words, scaling].concat());
}

/// A server with a filter of ids, and a guard that refuses what it lacks.
async fn guarded() -> (RedisServer, BloomGuard) {
    let server = server();
    reserve(&server, KEY, 2 * IDS, &[]);
    write(&server, KEY, 0..IDS);
    let guard = trusting(&server, filter()).await;
    refuses_strangers(&guard, "the guard refuses").await;
    (server, guard)
}

/// Nothing is refused, neither by a process that has seen the filter nor by one that starts now.
async fn nothing_is_refused(server: &RedisServer, guard: &BloomGuard) {
    let all = || (0..IDS).chain(STRANGERS);
    assert_eq!(refused(guard, all()).await, [0; 0]);
    let other = connected(server, filter()).await;
    assert_eq!(refused(&other, all()).await, [0; 0], "another process");
}

/// Inserts ids one by one, as `BF.ADD` does.
fn write_each(server: &RedisServer, ids: Range<u64>) {
    let mut pipeline = Pipeline::new();
    for id in ids {
        pipeline.cmd("BF.ADD").arg(KEY).arg(id).ignore();
    }
    pipeline.exec(&mut server.connection()).expect("a filter");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_module_has_is_never_refused_and_what_it_lacks_is() {
    const MANY: u64 = 100_000;
    // Room for the seal; three parts; and ten, as the first insert makes them with the module's defaults.
    for reserved in [Some((MANY + 100, "NONSCALING")), Some((MANY / 5, "EXPANSION 2")), None] {
        println!("{reserved:?}");
        let server = server();
        if let Some((capacity, scaling)) = reserved {
            let scaling: Vec<&str> = scaling.split(' ').collect();
            reserve(&server, KEY, capacity, &scaling);
        }
        write_each(&server, 0..MANY / 2);
        write(&server, KEY, MANY / 2..MANY);
        let guard = trusting(&server, filter()).await;
        assert_eq!(refused(&guard, 0..MANY).await, [0; 0]);
        let strangers = 1 << 40..(1 << 40) + 200_000;
        let measured = (200_000 - refused(&guard, strangers).await.len()) as f64 / 200_000.0;
        println!("rate {measured}");
        // Parts that are not full yet make it better than what was asked for.
        assert!(measured < 0.01 * 1.1, "{measured:e}");
        let inspected = guard.foreign().unwrap().inspect().await.unwrap();
        assert!(inspected.ids.abs_diff(MANY) < MANY / 100, "{inspected:?}");
        if reserved.is_some_and(|(_, scaling)| scaling == "NONSCALING") {
            // 9.585 bits an id, 7 of them set.
            let bits = 9.585_058 * (MANY + 100) as f64;
            let formula = (1.0 - (-7.0 * MANY as f64 / bits).exp()).powi(7);
            assert!((measured / formula - 1.0).abs() < 0.1, "{measured:e} and not {formula:e}");
            let estimated = inspected.false_positive_rate;
            assert!((estimated / formula - 1.0).abs() < 0.1, "{inspected:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_guard_inserts_the_module_has() {
    const MANY: u64 = 100_000;
    let (server, guard) = guarded().await;
    guard.insert(&(1_u64 << 50)).await.unwrap();
    guard.insert_many(IDS..IDS + 300).await.unwrap();
    guard.insert_many(2 * IDS..2 * IDS + MANY).await.unwrap();
    let added: Vec<u64> =
        (IDS..IDS + 300).chain([1 << 50]).chain(2 * IDS..2 * IDS + MANY).collect();
    for ids in added.chunks(1_000) {
        let mut ask = redis::cmd("BF.MEXISTS");
        let found: Vec<u8> = ask.arg(KEY).arg(ids).query(&mut server.connection()).unwrap();
        assert_eq!(found, vec![1; ids.len()], "{ids:?}");
    }
    assert_eq!(guard.check(&(1_u64 << 50)).await, Ok(Verdict::Present));
    refuses_strangers(&guard, "the guard refuses").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_refused_before_the_filter_was_said_to_be_whole() {
    let server = server();
    let guard = connected(&server, filter()).await;
    assert_eq!(guard.check(&STRANGERS.start).await, Ok(Verdict::Unknown(Doubt::NoFilter)));
    write(&server, KEY, 0..10);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_filter_is_neither_trusted_nor_created() {
    let server = server();
    let guard = connected(&server, filter()).await;
    let foreign = guard.foreign().unwrap();
    let inspected = foreign.inspect().await.unwrap();
    assert_eq!(inspected.ids, 0);
    foreign.trust_after(&inspected, KNOWN).await.expect_err("there is none");
    let error = guard.insert(&7).await.expect_err("there is none");
    assert!(format!("{error:?}").contains("not found"), "{error:?}");
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_filter_and_one_without_room_for_a_seal_cannot_be_said_to_be_whole() {
    let server = server();
    let guard = connected(&server, filter()).await;
    let foreign = guard.foreign().unwrap();
    for (capacity, ids) in [(100, 0), (40, 20)] {
        server.run::<()>(&["FLUSHALL"]);
        reserve(&server, KEY, capacity, &["NONSCALING"]);
        if ids > 0 {
            write(&server, KEY, 0..ids);
        }
        let inspected = foreign.inspect().await.unwrap();
        assert_eq!(inspected.ids, ids);
        foreign
            .trust_after(&inspected, KNOWN)
            .await
            .expect_err("nothing could show that it is whole");
        assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_refuses_nothing_though_the_module_says_that_ids_are_absent() {
    let (server, guard) = guarded().await;
    server.run::<()>(&["DEL", KEY]);
    assert_eq!(server.run::<u8>(&["BF.EXISTS", KEY, "1"]), 0);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_refuses_nothing() {
    let (server, guard) = guarded().await;
    server.run::<()>(&["DEL", KEY]);
    server.run::<()>(&["LPUSH", KEY, "x"]);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_emptied_and_has_more_ids_than_ever_refuses_nothing() {
    let (server, guard) = guarded().await;
    let mut fill = redis::pipe();
    fill.cmd("DEL").arg(KEY).cmd("BF.RESERVE").arg(KEY).arg(0.01).arg(3 * IDS);
    fill.cmd("BF.MADD").arg(KEY).arg((IDS / 2..3 * IDS).collect::<Vec<_>>());
    fill.atomic().exec(&mut server.connection()).unwrap();
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_emptied_between_two_processes_refuses_nothing() {
    for lost in ["DEL", "FLUSHALL"] {
        let (server, guard) = guarded().await;
        drop(guard);
        server.run::<()>(if lost == "DEL" { &["DEL", KEY] } else { &["FLUSHALL"] });
        write(&server, KEY, IDS / 2..3 * IDS);
        let next = connected(&server, filter()).await;
        assert_eq!(refused(&next, (0..IDS).chain(STRANGERS)).await, [0; 0], "{lost}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_took_the_other_ones_place_refuses_nothing() {
    let (server, guard) = guarded().await;
    reserve(&server, "other", 3 * IDS, &[]);
    write(&server, "other", IDS / 2..3 * IDS);
    server.run::<()>(&["RENAME", "other", KEY]);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_away_for_a_moment_refuses_nothing_then_and_later() {
    let (server, guard) = guarded().await;
    server.run::<()>(&["RENAME", KEY, "away"]);
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    // What others insert meanwhile is lost.
    write(&server, KEY, IDS..IDS + 1);
    server.run::<()>(&["RENAME", "away", KEY]);
    assert_eq!(refused(&guard, IDS..IDS + 1).await, [0; 0]);
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_that_is_put_back_hides_no_insert_of_any_program() {
    for by_the_guard in [true, false] {
        let (server, guard) = guarded().await;
        let copy: Vec<u8> = server.run(&["DUMP", KEY]);
        if by_the_guard {
            guard.insert(&STRANGERS.start).await.unwrap();
        } else {
            write(&server, KEY, [STRANGERS.start]);
        }
        assert_eq!(refused(&guard, [STRANGERS.start]).await, [0; 0]);
        let mut restore = redis::cmd("RESTORE");
        restore.arg(KEY).arg(0).arg(copy).arg("REPLACE");
        restore.exec(&mut server.connection()).unwrap();
        nothing_is_refused(&server, &guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_dump_refuses_nothing_neither_to_an_old_process_nor_to_a_new_one() {
    let (mut server, guard) = guarded().await;
    server.run::<()>(&["SAVE"]);
    write(&server, KEY, IDS..IDS + 1);
    guard.insert(&(IDS + 1)).await.unwrap();
    server.restart();
    eventually("a connection", SOON, || async {
        match guard.check(&0).await.unwrap() {
            Verdict::Unknown(Doubt::Disconnected | Doubt::Timeout | Doubt::Changing) => {
                Err("not connected".to_owned())
            }
            _ => Ok(()),
        }
    })
    .await;
    assert_eq!(refused(&guard, 0..IDS + 2).await, [0; 0]);
    nothing_is_refused(&server, &guard).await;
    // By hand, when it is known to be whole again.
    write(&server, KEY, IDS..IDS + 2);
    trust(&guard).await;
    refuses_strangers(&guard, "the guard refuses").await;
    assert_eq!(refused(&guard, 0..IDS + 2).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_scales_refuses_no_id_of_any_of_its_parts() {
    let (server, guard) = guarded().await;
    for part in 1..8 {
        write(&server, KEY, part * IDS..(part + 1) * IDS);
        assert_eq!(refused(&guard, 0..(part + 1) * IDS).await, [0; 0]);
        refuses_strangers(&guard, "the guard refuses").await;
    }
    let parts: Vec<u64> = server.run(&["BF.INFO", KEY, "FILTERS"]);
    assert!(parts[0] > 1, "{parts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_filter_refuses_nothing_for_as_long_as_it_is_full_and_says_so() {
    let server = server();
    reserve(&server, KEY, IDS, &["NONSCALING"]);
    write(&server, KEY, 0..IDS / 2);
    let guard = trusting(&server, filter()).await;
    refuses_strangers(&guard, "the guard refuses").await;
    // The last of them find no room, and exist all the same.
    let _: redis::Value = server.run(&["BF.MADD", KEY, "x"]);
    let mut add = redis::cmd("BF.MADD");
    add.arg(KEY).arg((IDS / 2..IDS + 100).collect::<Vec<_>>());
    add.query::<redis::Value>(&mut server.connection()).ok();
    assert_eq!(refused(&guard, 0..IDS + 100).await, [0; 0]);
    // Some of them may be in it by chance.
    let error = guard.insert_many(STRANGERS).await.expect_err("it is full");
    assert!(format!("{error:?}").contains("doubt: Full"), "{error:?}");
    eventually("it says so", SOON, || async {
        let live = guard.state().live;
        if matches!(live, Err(Doubt::Full)) { Ok(()) } else { Err(format!("{live:?}")) }
    })
    .await;
    nothing_is_refused(&server, &guard).await;
    // Nor does another filter take its place that has room, but not all ids.
    reserve(&server, "other", 3 * IDS, &[]);
    write(&server, "other", 0..IDS);
    server.run::<()>(&["RENAME", "other", KEY]);
    assert_eq!(refused(&guard, 0..IDS + 100).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_finds_lost_no_other_trusts() {
    let (server, guard) = guarded().await;
    let other = connected(&server, filter()).await;
    other.ready().await;
    refuses_strangers(&other, "the guard refuses").await;
    server.run::<()>(&["RENAME", KEY, "away"]);
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    server.run::<()>(&["RENAME", "away", KEY]);
    assert!(!refuses(&other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_lost_after_it_was_inspected_is_not_trusted() {
    let server = server();
    write(&server, KEY, 0..IDS);
    let guard = connected(&server, filter()).await;
    let foreign = guard.foreign().unwrap();
    let inspected = foreign.inspect().await.unwrap();
    server.run::<()>(&["DEL", KEY]);
    write(&server, KEY, IDS / 2..3 * IDS);
    foreign.trust_after(&inspected, KNOWN).await.expect_err("it is another one");
    nothing_is_refused(&server, &guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_the_module_is_a_clear_error() {
    let server = RedisServer::start();
    let guard = foreign_guard(&server.url()).foreign(filter()).build().unwrap();
    eventually("it says so", SOON, || async {
        let state = format!("{:?}", guard.state());
        let is_clear = state.contains("ERR unknown command") && state.contains("BF.INFO");
        if is_clear && state.contains("Err(Unsupported)") { Ok(()) } else { Err(state) }
    })
    .await;
    assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
    let error = guard.foreign().unwrap().inspect().await.expect_err("there is no module");
    assert!(matches!(error, StoreError::Refused { doubt: Doubt::Unsupported, .. }), "{error:?}");
    guard.insert(&7).await.expect_err("there is no module");
}
