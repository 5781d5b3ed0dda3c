//! `CLIENT LIST` tells which connections are a guard's, and what for.

use std::time::Duration;

use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

/// The names that connections bear, sorted.
fn names(redis: &RedisServer) -> Vec<String> {
    let list: String = redis.run(&["CLIENT", "LIST"]);
    let fields =
        list.lines().filter_map(|line| line.split(' ').find_map(|it| it.strip_prefix("name=")));
    let mut names: Vec<_> = fields.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_connection_bears_the_name_of_its_filter_and_what_it_is_for() {
    let redis = RedisServer::start();
    let guard = guard_over(&redis.url(), &Table::with(0..100)).build().unwrap();
    live(&guard).await;
    let all = ["checks", "inserts", "rebuilds"].map(|what| format!("bloom-guard:users:{what}"));
    for _ in 0..2 {
        eventually("all have a name", Duration::from_secs(20), || async {
            let names = names(&redis);
            if names == all { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
        // Those that are made anew, too.
        redis.run::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }
}
