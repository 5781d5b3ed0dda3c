//! Redis's data go back in time while the process that holds them runs on.

use std::time::Duration;

use bloom_guard::BloomGuard;
use futures_util::future::join_all;

use super::{BITS, META};
use support::model::{Table, get_looked_up, guard, guard_over, inserted, live};
use support::redis_server::RedisServer;
use support::throughout;

/// An id whose insert was acknowledged, and is forgotten.
const LOST: u64 = 4_711;
/// How soon a process notices that made none of the lost inserts.
const NOTICED: Duration = Duration::from_secs(3);

/// One process inserts `LOST` between two things that happen to Redis, and commits it. It never refuses the
/// id; another process does not for longer than it takes to notice.
async fn not_refused_after(redis: &RedisServer, before: fn(&RedisServer), after: fn(&RedisServer)) {
    let table = Table::with(0..1_000);
    let creator = guard_over(&redis.url(), &table).build().unwrap();
    let other = guard(&redis.url()).build().unwrap();
    live(&creator).await;
    live(&other).await;
    creator.insert(&1).await.unwrap();
    before(redis);
    inserted(&creator, [LOST]).await;
    after(redis);
    table.commit(LOST);
    let shown = |guard: &BloomGuard| {
        let (guard, table) = (guard.clone(), table.clone());
        async move {
            assert_eq!(get_looked_up(&guard, &table, LOST).await, 200, "{:?}", guard.state());
        }
    };
    throughout(NOTICED, || shown(&creator)).await;
    throughout(Duration::from_secs(3), || async {
        shown(&creator).await;
        shown(&other).await;
    })
    .await;
    for guard in [&creator, &other] {
        live(guard).await;
        shown(guard).await;
    }
}

/// What is done before the insert, and after it; on a server that may be told to reload its dump.
type Rewinds = (fn(&RedisServer), fn(&RedisServer));

#[tokio::test]
async fn an_insert_that_redis_has_forgotten_is_not_refused() {
    const AWAY: &str = "bg:{users}:away";
    let rewinds: [Rewinds; 4] = [
        // The filter was renamed away.
        (|redis| redis.run(&["RENAME", BITS, AWAY]), |redis| redis.run(&["RENAME", AWAY, BITS])),
        // Another database was swapped in.
        (|redis| redis.run(&["SWAPDB", "0", "1"]), |redis| redis.run(&["SWAPDB", "0", "1"])),
        (|redis| redis.run(&["SAVE"]), |redis| redis.run(&["DEBUG", "RELOAD", "NOSAVE"])),
        // All keys are those of a backup of a minute ago.
        (|redis| copy_all(redis, "", ".old"), |redis| copy_all(redis, ".old", "")),
    ];
    join_all(rewinds.map(|(before, after)| async move {
        let redis = RedisServer::with(&["--enable-debug-command", "yes"]);
        not_refused_after(&redis, before, after).await;
    }))
    .await;
}

/// Copies all of the filter's own keys to others, or back.
fn copy_all(redis: &RedisServer, from: &str, to: &str) {
    for key in [BITS, META, "bg:{users}:recent"] {
        redis.run::<i64>(&["COPY", &format!("{key}{from}"), &format!("{key}{to}"), "REPLACE"]);
    }
}
