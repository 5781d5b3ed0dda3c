//! What changes a filter: `mode` and `rebuild`.

use std::time::Duration;

use bloom_guard::{BloomGuard, Mode, PathPattern, SecretKey};
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;
use tokio::task::{JoinHandle, spawn_blocking};

use super::command::program;
use super::{Ran, filled};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn all_processes_change_their_mode() {
    let (redis, guard) = filled().await;
    let field = |name: &str| redis.run::<Option<String>>(&["HGET", "bg:{users}:fleet", name]);
    let (reach, settles) = (field("reach"), field("settles"));
    for (word, mode) in [("off", Mode::Off), ("shadow", Mode::Shadow), ("enforce", Mode::Enforce)] {
        let ran = Ran::with(&["mode", &redis.url(), "users", word]);
        assert_eq!(ran.status, 0, "{ran:?}");
        eventually("the process knows", Duration::from_secs(5), || async {
            if guard.mode() == mode { Ok(()) } else { Err(format!("{:?}", guard.mode())) }
        })
        .await;
        ran.is_as_kept(&format!("mode_{word}"));
    }
    // Nobody's record reaches further back for it, and nothing settles anew.
    assert_eq!((field("reach"), field("settles")), (reach, settles));
}

fn mode(redis: &RedisServer) -> Option<String> {
    redis.run(&["HGET", "bg:{users}:fleet", "mode"])
}

/// Runs `mode off`; returns when Redis has it, and the command waits for all processes.
async fn turning_off(redis: &RedisServer) -> JoinHandle<Ran> {
    // Which takes a while where it has to be built.
    spawn_blocking(program).await.unwrap();
    let url = redis.url();
    let off = spawn_blocking(move || Ran::with(&["mode", &url, "users", "off"]));
    eventually("it is set", Duration::from_secs(10), || async {
        let mode = mode(redis);
        if mode.as_deref() == Some("o") { Ok(()) } else { Err(format!("{mode:?}")) }
    })
    .await;
    off
}

/// An operator who has refusals end must not be told so where nobody heard of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_mode_that_redis_lost_before_any_process_read_it_is_not_said_to_be_set() {
    let (redis, guard) = filled().await;
    drop(guard);
    eventually("no process is connected", Duration::from_secs(5), || async {
        let clients: String = redis.run(&["CLIENT", "LIST"]);
        if clients.contains("name=bloom-guard") { Err(clients) } else { Ok(()) }
    })
    .await;
    let off = turning_off(&redis).await;
    // As a replica that lagged behind, and takes over.
    redis.run::<()>(&["HDEL", "bg:{users}:fleet", "mode", "mode_at"]);
    let ran = off.await.unwrap();
    assert_eq!((ran.status == 0, mode(&redis).as_deref()), (true, Some("o")), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_mode_that_another_operator_sets_meanwhile_is_left() {
    let (redis, guard) = filled().await;
    let off = turning_off(&redis).await;
    guard.set_fleet_mode(Mode::Shadow).await.unwrap();
    let ran = off.await.unwrap();
    assert!(ran.status != 0 && ran.err.contains("another call has set the mode"), "{ran:?}");
    assert_eq!(mode(&redis).as_deref(), Some("s"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_with_a_source_rebuilds_what_the_command_asks_for() {
    let (redis, table) = (RedisServer::start(), Table::with(0..1_000));
    let builder = guard_over(&redis.url(), &table).secret_key(SecretKey::new([7; 16]));
    let guard = builder.shards(4).build().unwrap();
    live(&guard).await;
    let key = [("BLOOM_GUARD_SECRET_KEY", "07070707070707070707070707070707")];
    let run = |words: &[&str]| {
        Ran::fed(&[words, &[&redis.url(), "users", "--shards", "4"]].concat(), "", &key)
    };
    let generation =
        || run(&["--json", "status"]).json()["state"]["live"]["Ok"]["generation"].clone();
    let meta: String = redis.run(&["HGET", "bg:{users#0/4}:fleet", "reach"]);
    (1_000..1_500).for_each(|id| table.commit(id));
    let ran = run(&["rebuild"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    eventually("a new filter is live", Duration::from_secs(30), || async {
        let status = run(&["status"]);
        if status.out.contains("1500 ids of") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(redis.run::<String>(&["HGET", "bg:{users#0/4}:fleet", "reach"]), meta);
    // Once.
    let rebuilt = generation();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(generation(), rebuilt);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_no_process_can_rebuild_stays_asked() {
    let (redis, guard) = filled().await;
    drop(guard);
    let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
    let without = BloomGuard::builder("users", pattern).redis(&redis.url()).build().unwrap();
    live(&without).await;
    Ran::with(&["rebuild", &redis.url(), "users"]).is_as_kept("rebuild");
    assert!(redis.run::<bool>(&["HEXISTS", "bg:{users}:fleet", "asked"]));
}
