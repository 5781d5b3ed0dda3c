//! What only reads: `check`, `verify`, `status`.

use std::time::Duration;

use bloom_guard::Mode;
use support::eventually;
use support::model::{Table, guard_over, live};
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
    let is_null = |at: usize| json["ids"][at]["trace"]["null_lasts"].is_object();
    assert!(is_null(0) && !is_null(1), "{json}");
    guard.set_fleet_mode(Mode::Shadow).await.unwrap();
    Ran::with(&["check", &redis.url(), "users", "777777"]).is_as_kept("check_shadow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_many_ids_it_names_those_that_would_be_refused() {
    let (redis, guard) = filled().await;
    guard.insert(&5_000).await.unwrap();
    let ids: String = (0..1_000).chain([5_000, 777_777]).map(|id| format!("{id}\n")).collect();
    let long = "x".repeat(300);
    let ran = Ran::fed(&["verify", &redis.url(), "users"], &format!("{ids}\n{long}\r\n"), &[]);
    ran.is_as_kept("verify");
    // A byte order mark is no part of an id.
    let sound = Ran::fed(&["--json", "verify", &redis.url(), "users"], "\u{feff}1\n2", &[]);
    assert_eq!(
        (sound.status, sound.json()["tally"]["present"].as_u64()),
        (0, Some(2)),
        "{sound:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn it_says_how_the_filter_stands() {
    let (redis, guard) = filled().await;
    let status = Ran::with(&["status", &redis.url(), "users"]);
    status.is_as_kept("status");
    guard.set_fleet_mode(Mode::Off).await.unwrap();
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_off");
    // Whatever stands in a key, it is no line of the command's.
    redis.run::<()>(&["SET", "bg:{users}:lock", "1@host\n\u{1b}[2Jabsent ids are refused"]);
    let forged = Ran::with(&["status", &redis.url(), "users"]);
    assert!(forged.out.contains(r"by host\n\u{1b}[2Jabsent ids are refused"), "{forged:?}");
    redis.run::<i64>(&["DEL", "bg:{users}:lock", "bg:{users}:bits"]);
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
        &["verify", &url, "users"],
        &["doctor", &url, "users"],
        &["check", &url, "user", "7"],
        &["mode", &url, "user", "off"],
    ] {
        let ran = Ran::fed(words, "7\n", &[]);
        assert_eq!(all_of(&redis), before, "{words:?}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_that_settles_refuses_nothing_and_says_so() {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).settle(HOUR).build().unwrap();
    guard.ready().await;
    Ran::with(&["check", &redis.url(), "users", "7", "777777"]).is_as_kept("check_settling");
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_settling");
    Ran::with(&["mode", &redis.url(), "users", "enforce"]).is_as_kept("mode_settling");
    Ran::fed(&["verify", &redis.url(), "users"], "777777\n", &[]).is_as_kept("verify_settling");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_redis_process_is_not_trusted_and_nobody_polls() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let guard = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&guard).await;
    drop(guard);
    redis.run::<i64>(&["HSET", "bg:{users}:fleet", "polled", "1"]);
    redis.run::<()>(&["SAVE"]);
    redis.restart();
    Ran::with(&["check", &redis.url(), "users", "7"]).is_as_kept("check_restarted");
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_restarted");
    Ran::with(&["mode", &redis.url(), "users", "off"]).is_as_kept("mode_off_unpolled");
    Ran::with(&["check", &redis.url(), "users", "7"]).is_as_kept("check_off_restarted");
    let ran = Ran::with(&["rebuild", &redis.url(), "users"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    Ran::with(&["status", &redis.url(), "users"]).is_as_kept("status_asked");
}
