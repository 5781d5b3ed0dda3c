//! Redis's data go back in time while the process that holds them runs on.

use std::time::Duration;

use bloom_guard::{BloomGuard, SecretKey, Verdict};

use super::{BITS, META};
use support::model::{Table, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

/// An id whose insert was acknowledged, and is forgotten.
const LOST: u64 = 4_711;
/// How soon a process notices that made none of the lost inserts.
const NOTICED: Duration = Duration::from_secs(3);

/// One process inserts `LOST` between two things that happen to Redis, and commits it. It never refuses the
/// id; another process does not for longer than it takes to notice.
async fn not_refused_after(redis: &RedisServer, before: impl FnOnce(), after: impl FnOnce()) {
    let table = Table::with(0..1_000);
    let creator = guard_over(&redis.url(), &table).build().unwrap();
    let other = guard(&redis.url()).build().unwrap();
    live(&creator).await;
    live(&other).await;
    creator.insert(&1).await.unwrap();
    before();
    eventually("it is acknowledged", Duration::from_secs(20), || async {
        creator.insert(&LOST).await.map_err(|error| error.to_string())
    })
    .await;
    after();
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

#[tokio::test]
async fn an_insert_while_the_filter_was_renamed_away_is_not_refused() {
    let redis = RedisServer::start();
    let away = || redis.run::<()>(&["RENAME", BITS, "bg:{users}:away"]);
    let back = || {
        redis.run::<()>(&["RENAME", "bg:{users}:away", BITS]);
    };
    not_refused_after(&redis, away, back).await;
}

#[tokio::test]
async fn an_insert_while_another_database_was_swapped_in_is_not_refused() {
    let redis = RedisServer::start();
    let swap = || redis.run::<()>(&["SWAPDB", "0", "1"]);
    not_refused_after(&redis, swap, swap).await;
}

#[tokio::test]
async fn an_insert_that_is_not_in_a_reloaded_dump_is_not_refused() {
    let redis = RedisServer::with(&["--enable-debug-command", "yes"]);
    let save = || redis.run::<()>(&["SAVE"]);
    let reload = || redis.run::<()>(&["DEBUG", "RELOAD", "NOSAVE"]);
    not_refused_after(&redis, save, reload).await;
}

#[tokio::test]
async fn an_insert_that_is_not_in_a_restored_filter_is_not_refused() {
    let redis = RedisServer::start();
    let copy = || {
        redis.run::<i64>(&["COPY", BITS, "bg:{users}:copy"]);
    };
    let restore = || {
        redis.run::<i64>(&["COPY", "bg:{users}:copy", BITS, "REPLACE"]);
    };
    not_refused_after(&redis, copy, restore).await;
}

/// Copies all of the filter's own keys to others, or back.
fn copy_all(redis: &RedisServer, from: &str, to: &str) {
    for key in [BITS, META, "bg:{users}:log", "bg:{users}:marks"] {
        redis.run::<i64>(&["COPY", &format!("{key}{from}"), &format!("{key}{to}"), "REPLACE"]);
    }
}

/// From a backup of a minute ago.
#[tokio::test]
async fn an_insert_that_is_not_in_a_restored_backup_of_all_keys_is_not_refused() {
    let redis = RedisServer::start();
    let (save, restore) = (|| copy_all(&redis, "", ".old"), || copy_all(&redis, ".old", ""));
    not_refused_after(&redis, save, restore).await;
}

/// The numbers are where they were, so only the time at which an entry was written tells.
#[tokio::test]
async fn a_lost_insert_is_noticed_by_a_poll_though_as_many_followed() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let creator = guard_over(&redis.url(), &table).build().unwrap();
    let other = guard(&redis.url()).build().unwrap();
    live(&creator).await;
    live(&other).await;
    creator.insert(&1).await.unwrap();
    copy_all(&redis, "", ".old");
    creator.insert(&LOST).await.unwrap();
    table.commit(LOST);
    copy_all(&redis, ".old", "");
    other.insert(&2).await.unwrap();
    for guard in [&creator, &other] {
        eventually("it is noticed", NOTICED, || async {
            match guard.check(&LOST).await.unwrap() {
                Verdict::Absent(_) => Err("refused".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    }
    throughout(NOTICED, || async {
        for guard in [&creator, &other] {
            assert_eq!(get_looked_up(guard, &table, LOST).await, 200, "{:?}", guard.state());
        }
    })
    .await;
}

/// Whoever inserted what the copy lacks is gone, and so are the metadata; the application gave the secret key.
#[tokio::test]
async fn an_old_copy_of_the_filter_in_an_emptied_redis_is_not_trusted() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let key = || SecretKey::new([7; 16]);
    let creator = guard_over(&redis.url(), &table).secret_key(key()).build().unwrap();
    live(&creator).await;
    redis.run::<i64>(&["COPY", BITS, "copy", "DB", "1"]);
    creator.insert(&LOST).await.unwrap();
    table.commit(LOST);
    drop(creator);
    redis.run::<()>(&["FLUSHDB"]);
    redis.run::<()>(&["SWAPDB", "0", "1"]);
    redis.run::<()>(&["RENAME", "copy", BITS]);
    let newcomer = guard(&redis.url()).secret_key(key()).build().unwrap();
    throughout(NOTICED, || async {
        let verdict = newcomer.check(&LOST).await.unwrap();
        assert!(!matches!(verdict, Verdict::Absent(_)), "{:?}", newcomer.state());
    })
    .await;
}

/// No check can see it. A look at what the journal holds does, in the background.
#[tokio::test]
async fn bits_that_were_cleared_under_a_sound_header_are_noticed_by_the_journal() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let creator = guard_over(&redis.url(), &table).build().unwrap();
    let other = guard(&redis.url()).build().unwrap();
    live(&creator).await;
    live(&other).await;
    creator.insert_many(10_000..11_000_u64).await.unwrap();
    let whole: Vec<u8> = redis.run(&["GET", BITS]);
    let cleared = vec![0_u8; whole.len() - 192];
    let mut clear = redis::cmd("SETRANGE");
    clear.arg(BITS).arg(128).arg(&cleared).exec(&mut redis.connection()).unwrap();
    for guard in [&creator, &other] {
        eventually("it is noticed", Duration::from_secs(10), || async {
            match guard.check(&10_500).await.unwrap() {
                Verdict::Absent(_) => Err("refused".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    }
    live(&creator).await;
    assert_eq!(creator.check(&10_500).await.unwrap(), Verdict::Present);
}
