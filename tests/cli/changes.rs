//! What changes a filter: `mode` and `drop`.

use std::time::Duration;

use bloom_guard::Mode;
use support::eventually;

use super::{Ran, filled};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn all_processes_change_their_mode() {
    let (redis, guard) = filled().await;
    let field = |name: &str| redis.run::<Option<String>>(&["HGET", "bg:{users}:meta", name]);
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
    // Nobody's marks last longer for it, and nothing settles anew.
    assert_eq!((field("reach"), field("settles")), (reach, settles));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_filter_is_deleted_only_when_no_process_polls_it() {
    let (redis, guard) = filled().await;
    redis.age();
    guard.remove(&8).await.unwrap();
    let polled = Ran::with(&["drop", &redis.url(), "users", "--yes"]);
    assert!(polled.status == 2 && polled.err.contains("has polled"), "{polled:?}");
    drop(guard);
    // As if that were long ago, once the last poll is over.
    tokio::time::sleep(Duration::from_millis(100)).await;
    redis.run::<i64>(&["HSET", "bg:{users}:meta", "polled", "1", "stated", "1"]);
    redis.run::<()>(&["SET", "mine", "1"]);
    Ran::with(&["drop", &redis.url(), "users"]).is_as_kept("drop_asked");
    Ran::with(&["drop", &redis.url(), "users", "--yes"]).is_as_kept("drop");
    assert_eq!(redis.keys(), ["mine"]);
}
