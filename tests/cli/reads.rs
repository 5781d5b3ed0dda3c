//! What only reads: `check`, `verify`, `status`, `watch`, `plan`.

use std::time::Duration;

use bloom_guard::{IdSink, Mode, Schedule, SecretKey, from_fn};
use http::StatusCode;
use support::eventually;
use support::log::Log;
use support::model::{Table, get, guard, guard_over, live};
use support::redis_server::RedisServer;

use super::{Ran, all_of, filled};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn it_says_of_each_id_whether_it_is_refused_and_why() {
    let (redis, guard) = filled().await;
    guard.insert(&5_000).await.unwrap();
    redis.age();
    guard.remove(&8).await.unwrap();
    let ran = Ran::with(&["check", &redis.url(), "users", "7", "8", "5000", "777777"]);
    ran.is_as_kept("check");
    let json = Ran::with(&["--json", "check", &redis.url(), "users", "8", "777777"]).json();
    let by: Vec<&str> = (0..2).map(|at| json["ids"][at]["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["null", "filter"], "{json}");
    guard.set_fleet_mode(Mode::Shadow).await.unwrap();
    Ran::with(&["check", &redis.url(), "users", "777777"]).is_as_kept("check_shadow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_id_has_the_digest_that_the_log_has_for_its_refusal() {
    let (redis, guard) = filled().await;
    let (log, _kept) = Log::begin();
    assert_eq!(get(&guard, &Table::default(), 777_777).await, StatusCode::NOT_FOUND);
    let json = Ran::with(&["--json", "check", &redis.url(), "users", "777777"]).json();
    let digest = json["ids"][0]["digest"].as_str().unwrap();
    let told = log.with("a request is refused");
    assert!(told.len() == 1 && told[0].ends_with(&format!("digest={digest}")), "{told:?} {json}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_many_ids_it_names_those_that_would_be_refused() {
    let (redis, guard) = filled().await;
    guard.insert(&5_000).await.unwrap();
    let ids: String = (0..1_000).chain([5_000, 777_777]).map(|id| format!("{id}\n")).collect();
    let long = "x".repeat(300);
    let ran = Ran::fed(&["verify", &redis.url(), "users"], &format!("{ids}\n{long}\r\n"), &[]);
    ran.is_as_kept("verify");
    let sound = Ran::fed(&["--json", "verify", &redis.url(), "users"], "1\n2", &[]);
    assert_eq!((sound.status, sound.json()["present"].as_u64()), (0, Some(2)), "{sound:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn it_says_how_the_filter_stands() {
    let (redis, guard) = filled().await;
    let status = Ran::with(&["status", &redis.url(), "users"]);
    status.is_as_kept("status");
    let lines = Ran::with(&["watch", &redis.url(), "users", "--count", "2"]);
    lines.is_as_kept("watch");
    guard.set_fleet_mode(Mode::Off).await.unwrap();
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_off");
    redis.run::<i64>(&["DEL", "bg:{users}:bits"]);
    drop(guard);
    eventually("its connections are closed", Duration::from_secs(5), || async {
        let clients: String = redis.run(&["CLIENT", "LIST"]);
        if clients.contains("name=bloom-guard:") { Err(clients) } else { Ok(()) }
    })
    .await;
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_gone");
    let gone = Ran::fed(&["verify", &redis.url(), "users"], "1\n", &[]);
    gone.is_as_kept("verify_gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_only_reads_writes_nothing() {
    let (redis, guard) = filled().await;
    drop(guard);
    let url = redis.url();
    let before = all_of(&redis);
    for words in [
        &["check", &url, "users", "7", "777777"][..],
        &["status", &url, "users"],
        &["watch", &url, "users", "--count", "2"],
        &["verify", &url, "users"],
        &["doctor", &url, "users"],
        &["drop", &url, "users"],
        &["check", &url, "user", "7"],
        &["mode", &url, "user", "off"],
        &["drop", &url, "user", "--yes"],
    ] {
        let ran = Ran::fed(words, "7\n", &[]);
        assert_eq!(all_of(&redis), before, "{words:?}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn shards_are_found_and_read() {
    const HEX: &str = "07070707070707070707070707070707";
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..1_000))
        .secret_key(SecretKey::new([7; 16]))
        .shards(4)
        .build()
        .unwrap();
    guard.ready().await;
    let key = [("BLOOM_GUARD_SECRET_KEY", HEX)];
    Ran::fed(&["status", &redis.url(), "users"], "", &key).is_as_kept("status_shards");
    let ids: String = (0..1_000).chain([777_777]).map(|id| format!("{id}\n")).collect();
    Ran::fed(&["verify", &redis.url(), "users"], &ids, &key).is_as_kept("verify_shards");
    Ran::with(&["check", &redis.url(), "users", "7"]).is_as_kept("no_key");
    let other = [("BLOOM_GUARD_SECRET_KEY", &*"ab".repeat(16))];
    let ran = Ran::fed(&["mode", &redis.url(), "users", "off"], "", &other);
    assert!(ran.status == 2 && ran.err.contains("secret key"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_settles_refuses_nothing_and_says_so() {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).settle(HOUR).build().unwrap();
    guard.ready().await;
    Ran::with(&["check", &redis.url(), "users", "7", "777777"]).is_as_kept("check_settling");
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_settling");
    Ran::fed(&["verify", &redis.url(), "users"], "777777\n", &[]).is_as_kept("verify_settling");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_of_which_a_shard_has_settled_refuses_its_ids_and_says_so() {
    const HEX: &str = "07070707070707070707070707070707";
    let redis = RedisServer::start();
    let builder = guard_over(&redis.url(), &Table::with(0..1_000)).settle(HOUR);
    let guard = builder.secret_key(SecretKey::new([7; 16])).shards(4).build().unwrap();
    guard.ready().await;
    // It would have the shard settle again.
    drop(guard);
    tokio::time::sleep(Duration::from_millis(100)).await;
    redis.run::<i64>(&["HSET", "bg:{users#2/4}:meta", "settles", "0"]);
    let url = redis.url();
    let run =
        |words: &[&str]| Ran::fed(words, "777777\n777779\n", &[("BLOOM_GUARD_SECRET_KEY", HEX)]);
    let ids: Vec<String> = (777_000..777_100).map(|id| id.to_string()).collect();
    let words =
        ["--json", "check", &url, "users"].into_iter().chain(ids.iter().map(String::as_str));
    let checked = run(&words.collect::<Vec<_>>());
    let refused = checked.out.matches("\"request\":\"refused\"").count();
    assert!((1..99).contains(&refused), "{refused}: {checked:?}");
    run(&["status", &url, "users"]).is_as_kept("status_settling_shards");
    run(&["watch", &url, "users", "--count", "1"]).is_as_kept("watch_settling_shards");
    run(&["verify", &url, "users"]).is_as_kept("verify_settling_shards");
    run(&["mode", &url, "users", "enforce"]).is_as_kept("mode_settling_shards");
    let before = run(&["mode", &url, "users", "shadow"]);
    assert_eq!(before.status, 0, "{before:?}");
    run(&["mode", &url, "users", "enforce"]).is_as_kept("mode_enforce_settling_shards");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_redis_process_is_not_trusted_and_nobody_polls() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&guard).await;
    drop(guard);
    redis.run::<i64>(&["HSET", "bg:{users}:meta", "polled", "1", "stated", "1"]);
    redis.run::<()>(&["SAVE"]);
    redis.restart();
    Ran::with(&["check", &redis.url(), "users", "7"]).is_as_kept("check_restarted");
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_restarted");
    Ran::with(&["mode", &redis.url(), "users", "off"]).is_as_kept("mode_off_unpolled");
    Ran::with(&["check", &redis.url(), "users", "7"]).is_as_kept("check_off_restarted");
    let ran = Ran::with(&["rebuild", &redis.url(), "users", "--wait", "0"]);
    assert!(ran.out.contains("what was asked stays asked"), "{ran:?}");
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rebuild_is_seen_under_way() {
    let (redis, _guard) = filled().await;
    let others = Ran::with(&["--json", "status", &redis.url(), "users"]).json();
    let source = from_fn(async move |_: &mut IdSink<'_>| {
        tokio::time::sleep(HOUR).await;
        Ok(())
    });
    let slow = guard(&redis.url()).rebuild(Schedule::manual(), source).build().unwrap();
    // By its connection for checks people know who rebuilds.
    live(&slow).await;
    let rebuilding = tokio::spawn(async move { slow.rebuild_now().await.map(drop) });
    eventually("the rebuild has begun", Duration::from_secs(20), || async {
        let json = Ran::with(&["--json", "status", &redis.url(), "users"]).json();
        if json["rebuilding_since_ms"].is_i64() { Ok(()) } else { Err(json.to_string()) }
    })
    .await;
    let json = Ran::with(&["--json", "status", &redis.url(), "users"]).json();
    let is_there = |json: &serde_json::Value| {
        let processes = json["processes"].as_array().unwrap().iter();
        processes.filter(|process| process["address"] == json["rebuilt_by"]).count()
    };
    assert_eq!((is_there(&json), &others["rebuilt_by"]), (1, &serde_json::Value::Null), "{json}");
    let address = json["rebuilt_by"].as_str().unwrap();
    assert!(
        !others.to_string().contains(address),
        "{address} is the process that came later: {others}"
    );
    let text = Ran::with(&["status", &redis.url(), "users"]).out;
    assert!(text.contains(&format!(") by {address}, ")), "{text}");
    rebuilding.abort();
}

#[test]
fn a_plan_is_the_librarys_own_arithmetic() {
    Ran::with(&["plan", "1000000", "0.001"]).is_as_kept("plan");
    Ran::with(&["plan", "500000000", "0.01", "--inserts-per-second", "200"])
        .is_as_kept("plan_large");
    let json = Ran::with(&["--json", "plan", "1000000", "0.001"]).json();
    let sizing = bloom_guard::Sizing::new(1_000_000, 0.001).unwrap();
    assert_eq!(json["redis_bytes"].as_u64(), Some(sizing.bytes()));
}

/// The figures of the guide's page are those of the command.
#[test]
fn a_plan_tells_of_a_rebuild_and_of_idle_processes_what_the_guide_does() {
    let page = include_str!("../../src/guide/redis.md");
    let number = |before: &str| -> f64 {
        let rest = page.split(before).nth(1).unwrap_or_else(|| panic!("{before} in the guide"));
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let (one, many) = (number("costs Redis "), number("of a core with 1 shard, "));
    for (shards, share) in [("1", one), ("256", many)] {
        let words = ["--json", "plan", "100000000", "0.01", "--processes", "1", "--shards", shards];
        let idle = Ran::with(&words).json()["idle_share_of_a_redis_core"].as_f64().unwrap();
        assert!(
            (idle * 100.0 - share).abs() < 1e-9,
            "{idle} with {shards} shards, {share} % there"
        );
    }
    let billion = Ran::with(&["--json", "plan", "1000000000", "0.01", "--shards", "256"]).json();
    let took = billion["rebuild_seconds"].as_f64().unwrap();
    assert_eq!(took.round(), number("Their first rebuild took "), "{billion}");
}
